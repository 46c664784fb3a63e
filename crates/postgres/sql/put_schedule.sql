-- A schedule as it stands. Nothing when somebody else made it since it was looked up.
-- $1 name  $2 next_at  $3 state  $4 whether it was there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.schedules VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET next_at = $2, state = $3 WHERE $4 RETURNING name
