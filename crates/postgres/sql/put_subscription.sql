-- A subscription as it stands. Nothing when somebody else made it since it was looked up.
-- $1 name  $2 state  $3 credential  $4 whether it was there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.subscriptions VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET state = $2, credential = $3 WHERE $4 RETURNING name
