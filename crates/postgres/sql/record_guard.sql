-- The guard in force.
-- $1 checksum
UPDATE windlass.store SET guard = $1
