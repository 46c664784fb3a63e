-- Removes what purged jobs left in approvals.
-- $1 jobs
-- Differs: all jobs in one statement.
DELETE FROM windlass.approvals WHERE job_id = ANY ($1)
