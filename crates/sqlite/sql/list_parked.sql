-- Waiting or assigned jobs.
-- ?1 status  ?2 after id  ?3 limit
SELECT * FROM jobs WHERE status = ?1 AND (waiting_for IS NOT NULL OR assignment IS NOT NULL) AND id > ?2 ORDER BY id LIMIT ?3
