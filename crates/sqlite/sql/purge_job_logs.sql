-- Removes what a purged job left in job_logs.
-- ?1 job
DELETE FROM job_logs WHERE job_id = ?1
