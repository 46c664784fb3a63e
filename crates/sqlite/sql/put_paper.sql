-- A paper as it stands.
-- ?1 kind  ?2 name  ?3 state
INSERT INTO papers VALUES (?1, ?2, ?3) ON CONFLICT (kind, name) DO UPDATE SET state = ?3
