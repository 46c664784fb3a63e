-- Jobs of a lane that stand in line, due or not, at most so many.
-- ?1 queue  ?2 lane  ?3 limit
WITH RECURSIVE level (priority) AS (SELECT -5 UNION ALL SELECT priority + 1 FROM level WHERE priority < 5)
SELECT id FROM level CROSS JOIN jobs INDEXED BY jobs_lane
WHERE queue = ?1 AND jobs.priority = level.priority AND lane = ?2 AND lane IS NOT NULL AND due_at IS NOT NULL
  AND status <> 'running' AND status <> 'assigned' LIMIT ?3
