-- Writes down an event that came in. Nothing when its id or its key is there already.
-- $1 id  $2 trigger  $3 dedupe_key  $4 payload  $5 is_json  $6 actor  $7 received_at  $8 due_at  $9 processed_at  $10 detail
INSERT INTO windlass.trigger_events
  (id, trigger_name, dedupe_key, payload, is_json, actor, received_at, due_at, processed_at, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id
