-- A renewal: the one change without an event.
-- $1 job  $2 lease_hash  $3 lease_expires_at  $4 due_at
UPDATE windlass.jobs SET lease_expires_at = $3, due_at = $4 WHERE id = $1 AND status = 'running' AND lease_hash = $2
