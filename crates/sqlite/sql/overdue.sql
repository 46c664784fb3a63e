-- Jobs past their deadline that can be acted on, oldest first. An assignment to a worker that is there is passed over,
-- so that it never keeps the others waiting.
-- ?1 now  ?2 limit
SELECT id FROM jobs
WHERE deadline_at <= ?1 AND (status <> 'assigned'
  OR NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = jobs.worker_id AND w.expires_at > ?1 AND NOT w.draining))
ORDER BY deadline_at, id LIMIT ?2
