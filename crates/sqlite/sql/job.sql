-- One row.
-- ?1 job
SELECT * FROM jobs WHERE id = ?1
