-- Held and assigned jobs of one worker.
-- $1 worker  $2 after id  $3 limit
-- Differs: the index has them by claim, so the worker's are sorted; never all jobs in the order of their ids.
SELECT * FROM (SELECT * FROM windlass.jobs WHERE worker_id = $1 AND id > $2 OFFSET 0) held ORDER BY id LIMIT $3
