-- Ends a job whose row does not read back, as a user at an SQL prompt would: the guard makes the row whole and logs it.
-- $1 job
UPDATE windlass.jobs SET status = CASE WHEN status IN ('running', 'retry', 'waiting') THEN 'failed' ELSE 'cancelled' END
WHERE id = $1 AND finished_at IS NULL
