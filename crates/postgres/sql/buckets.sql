-- What starts of a queue with rates have paid for, per lane, and until when lanes are held.
-- $1 queue
SELECT lane, paid_until, cost, held_until FROM windlass.buckets WHERE queue = $1
