-- Forgets a worker.
-- ?1 id
DELETE FROM workers WHERE id = ?1
