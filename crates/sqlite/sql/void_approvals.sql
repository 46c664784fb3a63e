-- A job ended: what was not decided never will be. The plus keeps SQLite from reading everybody's pending ones.
-- ?1 job  ?2 now
-- Mirrors core's Approval::closed().
UPDATE approvals SET status = CASE WHEN expires_at <= ?2 THEN 'expired' ELSE 'void' END, decided_at = ?2
WHERE job_id = ?1 AND +status = 'pending'
