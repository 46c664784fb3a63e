-- A stretch of one job's log, upwards.
-- $1 job  $2 after  $3 limit
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND version > $2 ORDER BY version LIMIT (SELECT $3::bigint)
