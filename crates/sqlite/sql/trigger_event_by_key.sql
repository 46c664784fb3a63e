-- The event of a trigger that has this dedupe key.
-- ?1 trigger  ?2 dedupe_key
SELECT id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail
FROM trigger_events WHERE trigger_name = ?1 AND dedupe_key = ?2
