-- Remembers an answer.
-- ?1 key  ?2 request_hash  ?3 body  ?4 expires_at
INSERT INTO answers VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (key) DO UPDATE SET request_hash = ?2, body = ?3, expires_at = ?4
