-- A problem as it stands.
-- ?1 fingerprint  ?2 state  ?3 kind  ?4 last seen  ?5 body
INSERT INTO problems VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (fingerprint) DO UPDATE SET state = ?2, last_seen_at = ?4, body = ?5
