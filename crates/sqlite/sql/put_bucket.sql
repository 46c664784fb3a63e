-- Keeps what starts of a lane have paid for. A hold stays.
-- ?1 queue  ?2 lane  ?3 paid_until  ?4 cost
INSERT INTO buckets (queue, lane, paid_until, cost) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, lane) DO UPDATE SET paid_until = ?3, cost = ?4
