-- Forgets how far a reader has come.
-- ?1 name
DELETE FROM readers WHERE name = ?1
