-- The newest approval of a job by its name.
-- $1 job  $2 name
SELECT * FROM windlass.approvals WHERE job_id = $1 AND name = $2 ORDER BY asked_version DESC LIMIT 1
