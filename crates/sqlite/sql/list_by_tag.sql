-- Jobs by a tag, newest first.
-- ?1 before id  ?2 limit  ?3 tag
SELECT j.* FROM job_tags t JOIN jobs j ON j.id = t.job_id
WHERE t.tag = ?3 AND t.job_id < ?1 ORDER BY t.job_id DESC LIMIT ?2
