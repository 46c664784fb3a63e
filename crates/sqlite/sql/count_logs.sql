-- How many of a job's lines between two numbers are here.
-- ?1 job  ?2 first  ?3 last
SELECT count(*) FROM job_logs WHERE job_id = ?1 AND n BETWEEN ?2 AND ?3
