-- Forgets slots of a queue whose jobs are not held any more. The queue is locked.
-- $1 queue
DELETE FROM windlass.slots s WHERE s.queue = $1 AND NOT EXISTS (
  SELECT 1 FROM windlass.jobs j WHERE j.id = s.id AND j.status IN ('running', 'assigned') OFFSET 0)
