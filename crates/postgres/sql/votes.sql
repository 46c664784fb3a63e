-- The votes in a job's log.
-- $1 job
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND type = 'job_approval_voted' ORDER BY version
