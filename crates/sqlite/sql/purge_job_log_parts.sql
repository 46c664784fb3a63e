-- Removes what a purged job left in job_log_parts.
-- ?1 job
DELETE FROM job_log_parts WHERE job_id = ?1
