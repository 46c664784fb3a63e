-- Locks the settings and reads them.
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT state FROM windlass.settings FOR UPDATE
