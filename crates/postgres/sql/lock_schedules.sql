-- Locks every schedule and reads them, by name.
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state FROM windlass.schedules ORDER BY name FOR UPDATE
