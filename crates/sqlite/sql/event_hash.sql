-- What the hash of an event is made of.
-- ?1 job  ?2 version
SELECT at, attempt, generation, type, actor, lease, key, detail, payload, is_json FROM job_events
WHERE job_id = ?1 AND version = ?2
