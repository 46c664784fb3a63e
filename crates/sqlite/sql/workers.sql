-- Every worker.
SELECT * FROM workers ORDER BY id
