-- A trigger as it stands. Nothing when somebody else made it since it was looked up.
-- $1 name  $2 state  $3 secrets  $4 whether it was there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.triggers VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET state = $2, secrets = $3 WHERE $4 RETURNING name
