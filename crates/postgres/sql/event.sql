-- One entry of one job's log.
-- $1 job  $2 version
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND version = $2
