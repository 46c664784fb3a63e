-- One trigger with its secrets.
-- $1 name
SELECT name, state, secrets FROM windlass.triggers WHERE name = $1
