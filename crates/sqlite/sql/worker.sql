-- One worker.
-- ?1 id
SELECT * FROM workers WHERE id = ?1
