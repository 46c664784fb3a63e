-- Holds a lane; what it has paid for stays, and a hold that lasts longer too. The queue is locked.
-- $1 queue  $2 lane  $3 now  $4 held_until
INSERT INTO windlass.buckets (queue, lane, paid_until, cost, held_until) VALUES ($1, $2, $3, 0, $4)
ON CONFLICT (queue, lane) DO UPDATE SET held_until = greatest($4, buckets.held_until)
