-- A new row that nobody holds, beside its first event; nothing when the id is taken.
-- $1..$46 every column
-- Differs: the columns stand in another order.
WITH inserted AS (
INSERT INTO windlass.jobs (id, queue, kind, priority, status, due_at, deadline_at, worker_id, lease_hash,
  lease_expires_at, epoch, assignment, attempt, retries, max_retries, crashes, version, generation, progress, stage,
  waiting_for, wait_name, wait_version, wake_version, signals, children, parent_id, cancel_requested_at, steps_from,
  unique_policy, timeout_ms, lease_ms, grace_ms, backoff, result_version, error_version, error_code, checkpoint_version,
  payload_version, meta_version, created_at, started_at, updated_at, finished_at, lane,
  dependents, parked, dead, dead_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
  $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45,
  $46, CASE WHEN $5::text IN ('waiting', 'assigned') THEN $5::text END,
  CASE WHEN $5::text IN ('failed', 'timed_out', 'cancelled') THEN $5::text END,
  CASE WHEN $5::text IN ('failed', 'timed_out', 'cancelled') THEN $44::timestamptz END)
ON CONFLICT (id) DO NOTHING RETURNING queue, priority, due_at, id, lane
), lined AS (
  INSERT INTO windlass.line (queue, priority, due_at, id, lane)
  SELECT queue, priority, due_at, id, lane FROM inserted WHERE due_at IS NOT NULL
)
SELECT id FROM inserted
