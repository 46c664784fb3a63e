-- The guard in force, by its parts.
SELECT part, number, checksum FROM windlass.guard
