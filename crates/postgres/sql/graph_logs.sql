-- What the logs of jobs say of their place in a graph, without the payloads.
-- $1 jobs
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, NULL::boolean,
  NULL::bytea
FROM unnest($1::uuid[]) asked (id) CROSS JOIN LATERAL (
  SELECT * FROM windlass.job_events WHERE job_id = asked.id
    AND type IN ('job_created', 'job_dependents_added', 'job_children_added', 'job_upstream_finished', 'job_rearmed',
      'job_forked') OFFSET 0
) e
ORDER BY e.job_id, e.version
