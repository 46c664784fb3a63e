-- Rows of jobs, not locked.
-- $1 jobs
SELECT * FROM windlass.jobs WHERE id = ANY ($1)
