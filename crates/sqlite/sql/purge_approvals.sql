-- Removes what a purged job left in approvals.
-- ?1 job
DELETE FROM approvals WHERE job_id = ?1
