-- Removes what purged jobs left in job_logs.
-- $1 jobs
-- Differs: all jobs in one statement.
DELETE FROM windlass.job_logs WHERE job_id = ANY ($1)
