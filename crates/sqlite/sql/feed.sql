-- The feed after a number, with what filters ask about.
-- ?1 after  ?2 limit  ?3 whether payloads other than errors are read
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, e.is_json,
  CASE WHEN ?3 OR e.type IN ('job_failed', 'job_retried', 'job_timed_out') THEN e.payload END AS payload, j.queue,
  j.kind AS job_kind
FROM job_events e JOIN jobs j ON j.id = e.job_id WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2
