-- Jobs by their kind, newest first, through the index on event 1.
-- $1 before id  $2 limit  $3 kind
SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id
WHERE e.kind = $3 AND e.job_id < $1 ORDER BY e.job_id DESC LIMIT (SELECT $2::bigint)
