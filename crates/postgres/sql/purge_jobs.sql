-- Removes what purged jobs left in jobs.
-- $1 jobs
-- Differs: all jobs in one statement.
DELETE FROM windlass.jobs WHERE id = ANY ($1)
