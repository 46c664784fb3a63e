-- Hands out due jobs that nobody holds, many at once. What each becomes, core has decided; this must come to the same.
-- ?1 rows  ?2 worker  ?3 now  ?4 lease_ms  ?5 secret
-- Not indexed: by its rowid, whatever the statistics say.
-- Mirrors core's hand_out().
-- Differs: the rows were found by due.sql; PostgreSQL finds and moves them in one statement.
UPDATE jobs NOT INDEXED SET status = 'running', attempt = attempt + 1, version = version + 1, worker_id = ?2, epoch = NULL,
  assignment = NULL, waiting_for = NULL, wait_name = NULL, cancel_requested_at = NULL,
  lease_hash = windlass_lease(?5, id, attempt + 1),
  deadline_at = ?3 + timeout_ms * 1000,
  lease_expires_at = min(?3 + coalesce(lease_ms, ?4) * 1000, coalesce(?3 + timeout_ms * 1000, 9223372036854775807)),
  due_at = min(?3 + coalesce(lease_ms, ?4) * 1000, coalesce(?3 + timeout_ms * 1000, 9223372036854775807)) + grace_ms * 1000,
  started_at = ?3, updated_at = ?3
WHERE rowid IN (SELECT value FROM rarray(?1)) AND due_at <= ?3
  AND (status = 'pending' OR status = 'retry' OR status = 'waiting' OR status = 'orphaned')
