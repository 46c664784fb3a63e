-- What starts of a queue with rates have paid for, per lane.
-- $1 queue
SELECT lane, paid_until, cost FROM windlass.buckets WHERE queue = $1
