-- The settings as they stand.
-- ?1 state
INSERT INTO settings VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET state = ?1
