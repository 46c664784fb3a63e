-- Locks a job and reads its row.
-- $1 job
SELECT * FROM windlass.jobs WHERE id = $1 FOR UPDATE
