-- Leaves with a job's unique key how the job ended.
-- ?1 job  ?2 status
UPDATE job_keys SET outcome = ?2 WHERE job_id = ?1
