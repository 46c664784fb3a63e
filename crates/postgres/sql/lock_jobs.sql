-- Locks jobs in the order of their ids, and reads their rows.
-- $1 jobs
SELECT * FROM windlass.jobs WHERE id = ANY ($1) ORDER BY id FOR UPDATE
