-- A reader's place. Nothing when somebody else made it since it was looked up.
-- $1 name  $2 cursor  $3 epoch  $4 moved_at  $5 since  $6 whether it was there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.readers VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET cursor = $2, epoch = $3, moved_at = $4, since = $5 WHERE $6 RETURNING name
