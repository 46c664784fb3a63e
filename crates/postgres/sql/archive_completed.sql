-- Jobs that completed before a moment, oldest first.
-- $1 before  $2 limit
-- Differs: SQLite has every finished job in one index.
SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id AND j.finished_at = e.at
WHERE e.type = 'job_completed' AND e.at < $1 AND j.status = 'completed'
ORDER BY e.at, e.job_id LIMIT (SELECT $2::bigint)
