-- A migration that was applied.
-- $1 id  $2 name  $3 checksum
-- Differs: the server has a clock.
INSERT INTO windlass.migrations (id, name, checksum, applied_at) VALUES ($1, $2, $3, clock_timestamp())
