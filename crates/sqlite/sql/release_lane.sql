-- Lets a lane go: neither a hold nor a debt keeps it. Answers what there was.
-- ?1 queue  ?2 lane
DELETE FROM buckets WHERE queue = ?1 AND lane = ?2 RETURNING paid_until, cost, held_until
