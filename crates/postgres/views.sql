-- Stable views; secrets are not among their columns. Replaced, never dropped, which keeps grants and what others built
-- on them: new columns come last.
CREATE OR REPLACE VIEW windlass.job_view AS
SELECT j.id, j.kind, j.queue, j.status, j.waiting_for, j.wait_name, j.stage, j.progress, j.priority, j.attempt, j.retries,
  j.max_retries, j.crashes, j.version, j.generation, j.due_at, j.deadline_at,
  CASE WHEN j.status IN ('running', 'assigned') THEN j.worker_id END AS worker_id, j.lease_expires_at,
  c.agent_id, c.parent_id, c.tags, windlass.as_json(p.is_json, p.payload) AS payload,
  windlass.as_json(r.is_json, r.payload) AS result, j.error_code, windlass.as_json(e.is_json, e.payload) AS error,
  j.cancel_requested_at, j.created_at, j.started_at, j.updated_at, j.finished_at,
  windlass.as_json(true, convert_to(m.detail, 'UTF8')) -> 'metadata' AS metadata
FROM windlass.jobs j
LEFT JOIN windlass.job_events c ON c.job_id = j.id AND c.version = 1
LEFT JOIN windlass.job_events p ON p.job_id = j.id AND p.version = coalesce(j.payload_version, 1)
LEFT JOIN windlass.job_events r ON r.job_id = j.id AND r.version = j.result_version
LEFT JOIN windlass.job_events e ON e.job_id = j.id AND e.version = j.error_version
LEFT JOIN windlass.job_events m ON m.job_id = j.id AND m.version = j.meta_version;
CREATE OR REPLACE VIEW windlass.dead_letter_view AS SELECT * FROM windlass.job_view WHERE status IN ('failed', 'timed_out');
CREATE OR REPLACE VIEW windlass.queue_view AS
SELECT queue, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS due,
  count(*) FILTER (WHERE due_at > clock_timestamp() AND status <> 'running') AS scheduled,
  count(*) FILTER (WHERE status = 'running') AS running,
  min(due_at) FILTER (WHERE status <> 'running' AND due_at <= clock_timestamp()) AS oldest_due_at
FROM (
  SELECT j.queue, j.status, j.due_at FROM windlass.line l JOIN windlass.jobs j ON j.id = l.id AND j.due_at = l.due_at
  UNION ALL
  SELECT j.queue, j.status, j.due_at FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id)
  JOIN windlass.jobs j ON j.id = i.id AND j.claim = h.claim AND j.status = 'running'
) live GROUP BY queue;
CREATE OR REPLACE VIEW windlass.history_view AS
SELECT job_id, version, seq, at, type, actor, attempt, generation, key,
  windlass.as_json(true, convert_to(detail, 'UTF8')) AS detail, windlass.as_json(is_json, payload) AS payload
FROM windlass.job_events;

COMMENT ON VIEW windlass.job_view IS 'Every job: where it stands, what it is, its payload, result, error and metadata.';
COMMENT ON VIEW windlass.dead_letter_view IS 'Jobs that failed or timed out for good: what a redrive can bring back.';
COMMENT ON VIEW windlass.queue_view IS 'Every queue that has work: how many of its jobs are due, scheduled and running.';
COMMENT ON VIEW windlass.history_view IS 'Every entry of every job''s log, in the order of seq.';
-- A column of a view means what the column of that name means in its table.
DO $$
DECLARE
  shown record;
BEGIN
  FOR shown IN
    SELECT c.oid::regclass AS view, a.attname AS name,
      coalesce(own.meaning, col_description(t.attrelid, t.attnum)) AS meaning
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND c.relkind = 'v'
    LEFT JOIN (VALUES
      ('payload', 'What the job or the entry carries, if it is JSON; null for other bytes.'),
      ('result', 'What the job returned, if it completed and the result is JSON.'),
      ('error', 'Why the last attempt failed: code and message.'),
      ('metadata', 'The job''s metadata as it stands, an object; null where it has none.'),
      ('detail', 'What the entry says beside its payload, an object.'),
      ('due', 'Jobs that a worker may take now, among them running ones whose lease is over.'),
      ('scheduled', 'Jobs whose due time lies in the future.'),
      ('running', 'Jobs that a worker holds.'),
      ('oldest_due_at', 'Since when the longest waiting of the due jobs is due; null where none is.')
    ) own (name, meaning) ON own.name = a.attname
    LEFT JOIN pg_attribute t ON t.attname = a.attname AND t.attrelid = CASE
      WHEN c.relname = 'history_view' OR a.attname IN ('agent_id', 'tags') THEN 'windlass.job_events'::regclass
      ELSE 'windlass.jobs'::regclass END
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.jobs'::regclass)
  LOOP
    EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', shown.view, shown.name, shown.meaning);
  END LOOP;
END $$;
