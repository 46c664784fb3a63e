-- Removes how often problems were seen, from a moment on or all of it.
-- $1 since
DELETE FROM windlass.problem_hours WHERE $1::timestamptz IS NULL OR at >= $1
