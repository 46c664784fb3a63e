-- The last line's number.
-- $1 job
SELECT coalesce(max(n), 0) FROM windlass.job_logs WHERE job_id = $1
