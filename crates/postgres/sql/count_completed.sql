-- Completed jobs, reading at most $1 of them.
-- $1 cap
-- Differs: SQLite has every finished job in one index. A fork's log may hold the completion of another job.
SELECT count(*) FROM (
  SELECT 1 FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id AND j.finished_at = e.at
  WHERE e.type = 'job_completed' AND j.status = 'completed' ORDER BY e.at, e.job_id LIMIT (SELECT $1::bigint)) completed
