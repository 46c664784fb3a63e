-- Events of the feed by their numbers.
-- $1 numbers  $2 whether payloads other than errors are read
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, e.is_json,
  CASE WHEN $2 OR e.type IN ('job_failed', 'job_retried', 'job_timed_out') THEN e.payload END, e.tx::text, j.queue, j.kind
FROM windlass.job_events e CROSS JOIN LATERAL (SELECT queue, kind FROM windlass.jobs WHERE id = e.job_id OFFSET 0) j
WHERE e.seq = ANY ($1) ORDER BY e.seq
