-- One row.
-- $1 job
SELECT * FROM windlass.jobs WHERE id = $1
