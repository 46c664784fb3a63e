-- Says why the store takes no writes, or that it does.
-- ?1 why, as JSON, or null
-- Differs: PostgreSQL puts triggers before its tables.
UPDATE windlass_store SET closed = ?1
