-- Locks the parent of a job, unless somebody else holds it.
-- $1 job
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT p.id FROM windlass.jobs p WHERE p.id = (SELECT parent_id FROM windlass.jobs WHERE id = $1)
FOR UPDATE SKIP LOCKED
