-- The settings as they stand. Nothing when somebody else made them since they were looked up.
-- $1 state  $2 whether they were there
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.settings VALUES (1, $1)
ON CONFLICT (one) DO UPDATE SET state = $1 WHERE $2 RETURNING one
