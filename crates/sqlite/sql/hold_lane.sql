-- Holds a lane; what it has paid for stays, and a hold that lasts longer too.
-- ?1 queue  ?2 lane  ?3 now  ?4 held_until
INSERT INTO buckets (queue, lane, paid_until, cost, held_until) VALUES (?1, ?2, ?3, 0, ?4)
ON CONFLICT (queue, lane) DO UPDATE SET held_until = max(?4, coalesce(held_until, ?4))
