-- A worker that reports itself.
-- ?1 id  ?2 queues  ?3 kinds  ?4 capacity  ?5 labels  ?6 draining  ?7 started_at  ?8 seen_at  ?9 expires_at  ?10 slots
INSERT INTO workers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO UPDATE SET queues = ?2, kinds = ?3, capacity = ?4, labels = ?5, draining = ?6,
  seen_at = ?8, expires_at = ?9, slots = ?10
