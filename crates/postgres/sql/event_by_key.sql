-- The entry with a caller's key.
-- $1 job  $2 key
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND key = $2
