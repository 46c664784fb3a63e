-- What the hashes of events are made of, in the order they are asked for. Payloads stay here.
-- $1 jobs  $2 versions
SELECT e.job_id, e.version, e.at, e.attempt, e.generation, e.type, e.actor, e.lease, e.key, e.detail,
  sha256(e.payload), e.is_json
FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY asked (job, version, n)
LEFT JOIN windlass.job_events e ON e.job_id = asked.job AND e.version = asked.version ORDER BY asked.n
