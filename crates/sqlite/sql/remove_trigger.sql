-- Removes a trigger.
-- ?1 name
DELETE FROM triggers WHERE name = ?1
