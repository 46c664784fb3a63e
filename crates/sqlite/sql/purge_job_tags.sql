-- Removes what a purged job left in job_tags.
-- ?1 job
DELETE FROM job_tags WHERE job_id = ?1
