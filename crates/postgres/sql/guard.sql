-- The checksum of the guard in force.
SELECT guard FROM windlass.store
