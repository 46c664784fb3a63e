-- Forgets buckets of a queue that mean nothing any more. The queue is locked.
-- $1 queue  $2 now
DELETE FROM windlass.buckets WHERE queue = $1 AND paid_until <= $2 AND coalesce(held_until <= $2, true)
