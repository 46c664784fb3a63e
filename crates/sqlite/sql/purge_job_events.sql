-- Removes what a purged job left in job_events.
-- ?1 job
DELETE FROM job_events WHERE job_id = ?1
