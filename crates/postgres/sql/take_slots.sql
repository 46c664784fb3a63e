-- Lists jobs that are handed out among those that may take a slot. Their queues are locked.
-- $1 jobs
INSERT INTO windlass.slots (queue, id, lane) SELECT queue, id, lane FROM windlass.jobs WHERE id = ANY ($1)
ON CONFLICT DO NOTHING
