-- The first events of jobs that differ only in id and payload, in the order given.
-- ?1 per job: its id, whether the payload is JSON or absent, and the payload  ?2 now  ?3 actor  ?4 detail  ?5 kind  ?6 agent
-- ?7 parent
-- Mirrors core's NewJob::created().
INSERT INTO job_events (job_id, version, at, type, actor, attempt, generation, detail, is_json, payload, kind, agent_id,
  parent_id)
SELECT substr(a.value, 1, 16), 1, ?2, 'job_created', ?3, 0, 0, ?4,
  CASE substr(a.value, 17, 1) WHEN x'00' THEN 0 WHEN x'01' THEN 1 END,
  CASE WHEN substr(a.value, 17, 1) <> x'02' THEN substr(a.value, 18) END, ?5, ?6, ?7
FROM rarray(?1) a
