-- A page of one job's approvals, newest first.
-- $1 before  $2 limit  $3 job
SELECT * FROM windlass.approvals WHERE job_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2
