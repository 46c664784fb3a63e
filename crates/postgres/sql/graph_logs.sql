-- What the logs of jobs say of their place in a graph, without the payloads.
-- $1 jobs
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, NULL::boolean, NULL::bytea
FROM windlass.job_events WHERE job_id = ANY ($1)
  AND type IN ('job_created', 'job_dependents_added', 'job_children_added', 'job_upstream_finished', 'job_rearmed',
    'job_forked')
ORDER BY job_id, version
