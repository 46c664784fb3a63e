-- Locks those of some jobs that nobody else holds.
-- $1 jobs
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT id FROM windlass.jobs WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED
