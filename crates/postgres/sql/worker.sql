-- One worker.
-- $1 id
SELECT * FROM windlass.workers WHERE id = $1
