-- Completed jobs, last completed first, through the index on the event that says so.
-- $1 before finished_at  $2 before id  $3 limit
-- Differs: SQLite has every finished job in one index. A fork's log may hold the completion of the job it was copied from.
SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id AND j.finished_at = e.at
WHERE e.type = 'job_completed' AND (e.at, e.job_id) < ($1, $2) AND j.status = 'completed'
ORDER BY e.at DESC, e.job_id DESC LIMIT (SELECT $3::bigint)
