-- A part of the guard that is in force.
-- $1 part  $2 number  $3 checksum
-- Differs: SQLite has nobody to wait for, and puts all of it in force at once.
INSERT INTO windlass.guard (part, number, checksum) VALUES ($1, $2, $3)
ON CONFLICT (part) DO UPDATE SET number = $2, checksum = $3
