-- The last line's number, also if that line moved to the archive.
-- $1 job
SELECT greatest(coalesce((SELECT max(n) FROM windlass.job_logs WHERE job_id = $1), 0),
  coalesce((SELECT max(last_n) FROM windlass.job_log_parts WHERE job_id = $1), 0))
