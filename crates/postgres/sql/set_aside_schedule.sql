-- A schedule that does not read back is not asked for any more. What is stored of it stays.
-- $1 name
UPDATE windlass.schedules SET next_at = NULL WHERE name = $1
