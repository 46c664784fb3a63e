-- How far a reader has come.
-- $1 name
SELECT name, cursor, epoch, moved_at, since FROM windlass.readers WHERE name = $1
