-- Every worker.
-- Differs: the order is by bytes, whatever the database's language.
SELECT * FROM windlass.workers ORDER BY id COLLATE "C"
