-- One entry of the log.
-- $1 job  $2 version  $3 at  $4 type  $5 actor  $6 attempt  $7 generation  $8 lease  $9 key  $10 detail
-- $11 is_json  $12 payload  $13 kind  $14 agent  $15 parent  $16 tags
-- Differs: seq and tx come from the server; tags are a column.
INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json,
  payload, kind, agent_id, parent_id, tags)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, nullif($16::text[], '{}'))
