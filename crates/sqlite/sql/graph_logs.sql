-- What the logs of jobs say of their place in a graph, without the payloads.
-- ?1 jobs
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, NULL, NULL
FROM rarray(?1) a CROSS JOIN job_events e ON e.job_id = a.value
WHERE e.type IN ('job_created', 'job_dependents_added', 'job_children_added', 'job_upstream_finished', 'job_rearmed',
    'job_forked')
ORDER BY e.job_id, e.version
