-- A schedule as it stands.
-- ?1 name  ?2 next_at  ?3 state
INSERT INTO schedules VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET next_at = ?2, state = ?3
