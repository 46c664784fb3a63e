-- One paper.
-- $1 kind  $2 name
SELECT name, state FROM windlass.papers WHERE kind = $1 AND name = $2
