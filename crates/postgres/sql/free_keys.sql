-- Gives back what a job held.
-- $1 job
DELETE FROM windlass.job_keys WHERE job_id = $1
