-- Every trigger, by name.
SELECT name, state, secrets FROM triggers ORDER BY name
