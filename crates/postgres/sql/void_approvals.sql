-- A job ended: what was not decided never will be.
-- $1 job  $2 now
-- Mirrors core's Approval::closed().
UPDATE windlass.approvals SET status = CASE WHEN expires_at <= $2 THEN 'expired' ELSE 'void' END, decided_at = $2
WHERE job_id = $1 AND status = 'pending'
