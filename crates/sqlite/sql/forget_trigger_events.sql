-- Removes processed events that are old, some at a time.
-- ?1 before  ?2 limit
DELETE FROM trigger_events WHERE id IN (
  SELECT id FROM trigger_events WHERE processed_at < ?1 ORDER BY processed_at LIMIT ?2)
