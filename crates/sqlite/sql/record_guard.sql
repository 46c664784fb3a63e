-- The guard in force.
-- ?1 checksum
UPDATE windlass_store SET guard = ?1
