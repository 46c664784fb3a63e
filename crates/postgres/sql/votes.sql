-- The votes in a job's log.
-- $1 job
SELECT * FROM windlass.job_events WHERE job_id = $1 AND type = 'job_approval_voted' ORDER BY version
