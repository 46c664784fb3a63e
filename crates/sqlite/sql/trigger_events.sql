-- Events of a trigger, newest first.
-- ?1 trigger  ?2 limit
SELECT id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail
FROM trigger_events WHERE trigger_name = ?1 ORDER BY id DESC LIMIT ?2
