-- Removes a paper.
-- $1 kind  $2 name
DELETE FROM windlass.papers WHERE kind = $1 AND name = $2
