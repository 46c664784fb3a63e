-- A migration that was applied.
-- ?1 id  ?2 name  ?3 checksum  ?4 applied_at
INSERT INTO windlass_migrations (id, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)
