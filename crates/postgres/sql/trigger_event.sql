-- One event of a trigger.
-- $1 id
SELECT id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail
FROM windlass.trigger_events WHERE id = $1
