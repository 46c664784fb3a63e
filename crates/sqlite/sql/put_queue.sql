-- A queue's settings.
-- ?1 name  ?2 paused_at  ?3 paused_by  ?4 defaults  ?5 mode  ?6 flow  ?7 endpoint
INSERT INTO queues VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE SET paused_at = ?2, paused_by = ?3, defaults = ?4, mode = ?5, flow = ?6, endpoint = ?7
