-- Gives back what a job held.
-- ?1 job
DELETE FROM job_keys WHERE job_id = ?1
