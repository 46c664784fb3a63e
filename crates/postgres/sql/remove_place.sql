-- Forgets how far a reader has come.
-- $1 name
DELETE FROM windlass.readers WHERE name = $1
