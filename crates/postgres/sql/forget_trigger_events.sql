-- Removes processed events that are old, some at a time.
-- $1 before  $2 limit
-- Differs: one that another transaction holds is passed over.
WITH gone AS (DELETE FROM windlass.trigger_events WHERE id = ANY (ARRAY(
    SELECT id FROM windlass.trigger_events WHERE processed_at < $1 ORDER BY processed_at LIMIT $2
    FOR UPDATE SKIP LOCKED)) RETURNING id)
SELECT count(*) FROM gone
