-- Locks an event of a trigger and reads it.
-- $1 id
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail
FROM windlass.trigger_events WHERE id = $1 FOR UPDATE
