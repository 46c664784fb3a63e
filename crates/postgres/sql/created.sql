-- The first events of jobs that are there.
-- $1 jobs
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, e.is_json,
  e.payload
FROM unnest($1::uuid[]) a (id) JOIN windlass.job_events e ON e.job_id = a.id AND e.version = 1
