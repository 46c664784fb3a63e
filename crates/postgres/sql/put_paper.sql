-- A paper as it stands. Nothing when somebody else made it since it was looked up.
-- $1 kind  $2 name  $3 state  $4 whether it was there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.papers VALUES ($1, $2, $3)
ON CONFLICT (kind, name) DO UPDATE SET state = $3 WHERE $4 RETURNING name
