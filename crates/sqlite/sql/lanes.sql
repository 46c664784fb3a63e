-- Lanes of a queue with a job in line, a slot that is taken or a bucket that counts: key, and how many jobs are due.
-- ?1 queue  ?2 after this lane  ?3 limit  ?4 now  ?5 up to where jobs are counted
WITH RECURSIVE level (priority) AS (SELECT -5 UNION ALL SELECT priority + 1 FROM level WHERE priority < 5),
walk (priority, lane, n) AS (
  SELECT priority, (
    SELECT lane FROM jobs INDEXED BY jobs_lane
    WHERE queue = ?1 AND priority = level.priority AND lane IS NOT NULL AND due_at IS NOT NULL AND lane > ?2
    ORDER BY lane LIMIT 1), 1 FROM level
  UNION ALL
  SELECT priority, (
    SELECT lane FROM jobs INDEXED BY jobs_lane
    WHERE queue = ?1 AND priority = walk.priority AND lane IS NOT NULL AND due_at IS NOT NULL AND lane > walk.lane
    ORDER BY lane LIMIT 1), n + 1 FROM walk WHERE lane IS NOT NULL AND n < ?3
), taken AS MATERIALIZED (
  SELECT lane, id FROM jobs INDEXED BY jobs_worker
  WHERE worker_id IS NOT NULL AND queue = ?1 AND (status = 'running' OR status = 'assigned')
), page (lane) AS (
  SELECT lane FROM walk WHERE lane IS NOT NULL
  UNION SELECT lane FROM taken WHERE lane > ?2
  UNION SELECT lane FROM buckets WHERE queue = ?1 AND lane > ?2 AND (paid_until > ?4 OR coalesce(held_until > ?4, false))
  ORDER BY 1 LIMIT ?3
)
SELECT p.lane, (
    SELECT json_extract(e.detail, '$.key') FROM job_events e WHERE e.version = 1 AND e.job_id = coalesce((
      SELECT id FROM level CROSS JOIN jobs INDEXED BY jobs_lane
      WHERE queue = ?1 AND jobs.priority = level.priority AND lane = p.lane AND lane IS NOT NULL
        AND due_at IS NOT NULL LIMIT 1
    ), (SELECT id FROM taken WHERE lane = p.lane LIMIT 1))
  ), (
    SELECT count(*) FROM (
      SELECT 1 FROM level CROSS JOIN jobs INDEXED BY jobs_lane
      WHERE queue = ?1 AND jobs.priority = level.priority AND lane = p.lane AND lane IS NOT NULL AND due_at <= ?4
        AND status <> 'running' LIMIT ?5)
  )
FROM page p ORDER BY p.lane
