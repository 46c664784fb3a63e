-- Locks a job and reads its row, unless somebody else holds it.
-- $1 job
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT * FROM windlass.jobs WHERE id = $1 FOR UPDATE SKIP LOCKED
