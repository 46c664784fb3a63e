-- Where lines of a job are that moved to the archive.
-- ?1 job
SELECT first_n, last_n, part FROM job_log_parts WHERE job_id = ?1 ORDER BY first_n
