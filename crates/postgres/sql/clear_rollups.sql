-- Removes rows of numbers from a moment on, or all of them.
-- $1 since
DELETE FROM windlass.rollups WHERE $1::timestamptz IS NULL OR at >= $1
