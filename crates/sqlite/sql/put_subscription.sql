-- A subscription as it stands.
-- ?1 name  ?2 state  ?3 credential
INSERT INTO subscriptions VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET state = ?2, credential = ?3
