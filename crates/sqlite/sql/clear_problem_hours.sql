-- Removes how often problems were seen, from a moment on or all of it.
-- ?1 since
DELETE FROM problem_hours WHERE ?1 IS NULL OR at >= ?1
