-- Removes a trigger.
-- $1 name
DELETE FROM windlass.triggers WHERE name = $1
