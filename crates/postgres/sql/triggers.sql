-- Every trigger, by name.
SELECT name, state, secrets FROM windlass.triggers ORDER BY name
