-- Jobs with old lines, by the age of a line, from a place on.
-- ?1 before  ?2 after at  ?3 after job  ?4 limit
SELECT DISTINCT at, job_id FROM job_logs
WHERE at < ?1 AND (at, job_id) > (?2, ?3) ORDER BY at, job_id LIMIT ?4
