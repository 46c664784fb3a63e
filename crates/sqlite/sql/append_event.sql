-- One entry of the log.
-- ?1 seq  ?2 job  ?3 version  ?4 at  ?5 type  ?6 actor  ?7 attempt  ?8 generation  ?9 lease  ?10 key  ?11 detail
-- ?12 is_json  ?13 payload  ?14 kind  ?15 agent  ?16 parent
INSERT INTO job_events (seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload,
  kind, agent_id, parent_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
