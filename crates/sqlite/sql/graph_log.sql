-- What a job's log says of its place in a graph, without the payloads.
-- ?1 job
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, NULL, NULL
FROM job_events WHERE job_id = ?1
  AND type IN ('job_created', 'job_dependents_added', 'job_children_added', 'job_upstream_finished', 'job_rearmed',
    'job_forked')
ORDER BY version
