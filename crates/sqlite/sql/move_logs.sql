-- Removes a job's lines that a part of the archive holds.
-- ?1 job  ?2 first  ?3 last
-- Differs: one range at a time; its reference is put_log_part.
DELETE FROM job_logs WHERE job_id = ?1 AND n BETWEEN ?2 AND ?3
