-- Removes rows of numbers from a moment on, or all of them.
-- ?1 since
DELETE FROM rollups WHERE ?1 IS NULL OR at >= ?1
