-- A reader's place.
-- ?1 name  ?2 cursor  ?3 epoch  ?4 moved_at  ?5 since
INSERT INTO readers VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET cursor = ?2, epoch = ?3, moved_at = ?4, since = ?5
