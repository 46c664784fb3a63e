-- A trigger as it stands.
-- ?1 name  ?2 state  ?3 secrets
INSERT INTO triggers VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET state = ?2, secrets = ?3
