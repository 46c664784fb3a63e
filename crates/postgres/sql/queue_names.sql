-- Queues with a job that has a due time, hopping from name to name through the index.
WITH RECURSIVE hop (queue) AS (
  SELECT min(queue) FROM windlass.jobs WHERE due_at IS NOT NULL
  UNION ALL
  SELECT (SELECT min(queue) FROM windlass.jobs WHERE queue > hop.queue AND due_at IS NOT NULL) FROM hop
  WHERE queue IS NOT NULL
)
SELECT queue FROM hop WHERE queue IS NOT NULL
