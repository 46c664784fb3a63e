-- Keeps what starts of lanes have paid for. A hold stays. The queue is locked.
-- $1 queue  $2 lanes  $3 paid_until of each  $4 cost of each
INSERT INTO windlass.buckets (queue, lane, paid_until, cost)
SELECT $1, b.lane, b.paid_until, b.cost
FROM unnest($2::bigint[], $3::timestamptz[], $4::int[]) b (lane, paid_until, cost)
ON CONFLICT (queue, lane) DO UPDATE SET paid_until = excluded.paid_until, cost = excluded.cost
