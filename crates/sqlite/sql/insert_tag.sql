-- A tag of a new job.
-- ?1 tag  ?2 job
INSERT OR IGNORE INTO job_tags (tag, job_id) VALUES (?1, ?2)
