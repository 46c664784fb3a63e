-- Who waits for a job, and its children: the events that say so.
-- $1 job
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1
  AND type IN ('job_dependents_added', 'job_children_added', 'job_redriven', 'job_rearmed', 'job_forked')
ORDER BY version
