-- Events that are not processed, oldest first; of one trigger, or of all.
-- $1 trigger or null  $2 limit
SELECT id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail
FROM windlass.trigger_events WHERE processed_at IS NULL AND ($1::text IS NULL OR trigger_name = $1)
ORDER BY received_at, id LIMIT $2
