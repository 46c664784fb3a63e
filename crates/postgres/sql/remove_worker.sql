-- Forgets a worker.
-- $1 id
DELETE FROM windlass.workers WHERE id = $1
