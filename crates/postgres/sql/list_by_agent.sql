-- Jobs by their agent, newest first, through the index on event 1.
-- $1 before id  $2 limit  $3 agent
SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id
WHERE e.agent_id = $3 AND e.job_id < $1 ORDER BY e.job_id DESC LIMIT (SELECT $2::bigint)
