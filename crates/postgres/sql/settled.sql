-- What was written under a lease, and whether the log was copied from another job: where a repeat finds itself.
-- $1 job  $2 lease
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND (lease = $2 OR type = 'job_forked') ORDER BY version
