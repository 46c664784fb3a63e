-- Removes old tombstones, some at a time.
-- ?1 before  ?2 limit
DELETE FROM tombstones WHERE job_id IN (
  SELECT job_id FROM tombstones WHERE purged_at < ?1 ORDER BY purged_at LIMIT ?2)
