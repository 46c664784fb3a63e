-- Removes what purged jobs left in job_events.
-- $1 jobs
-- Differs: all jobs in one statement.
DELETE FROM windlass.job_events WHERE job_id = ANY ($1)
