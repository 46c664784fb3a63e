-- Finished jobs of a status, reading at most ?1 of them.
-- ?1 cap  ?2 status
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE status = ?2 AND finished_at IS NOT NULL LIMIT ?1)
