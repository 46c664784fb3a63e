-- Jobs of a lane that run or are assigned.
-- $1 queue  $2 lane
-- Differs: what could be held is listed beside the rows.
SELECT s.id FROM windlass.slots s CROSS JOIN LATERAL (
  SELECT 1 FROM windlass.jobs WHERE jobs.id = s.id AND status IN ('running', 'assigned') OFFSET 0) j
WHERE s.queue = $1 AND s.lane = $2::bigint
