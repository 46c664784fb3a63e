-- How many slots of a queue are taken, per lane.
-- $1 queue
-- Counted in a statement of its own, after the queue was locked: what was handed out before that lock is seen.
-- Differs: what could be held is listed beside the rows.
SELECT coalesce(s.lane, 0), count(*) FROM windlass.slots s
CROSS JOIN LATERAL (
  SELECT 1 FROM windlass.jobs WHERE jobs.id = s.id AND status IN ('running', 'assigned') OFFSET 0) j
WHERE s.queue = $1 GROUP BY 1
