-- Papers of a kind, from the last name down.
-- ?1 kind  ?2 names before this one, or null  ?3 at most so many
SELECT name, state FROM papers WHERE kind = ?1 AND (?2 IS NULL OR name < ?2) ORDER BY name DESC LIMIT ?3
