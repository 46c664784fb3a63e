-- Held and assigned jobs by worker.
-- ?1 after worker  ?2 after id  ?3 limit
SELECT * FROM jobs WHERE worker_id IS NOT NULL AND (worker_id, id) > (?1, ?2) ORDER BY worker_id, id LIMIT ?3
