-- Removes what a purged job left in jobs.
-- ?1 job
DELETE FROM jobs WHERE id = ?1
