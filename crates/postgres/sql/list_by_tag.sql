-- Jobs by a tag, newest first.
-- $1 before id  $2 limit  $3 tag
-- Differs: tags are a column of event 1.
SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id
WHERE e.tags @> ARRAY[$3] AND e.tags IS NOT NULL AND e.job_id < $1 ORDER BY e.job_id DESC LIMIT $2
