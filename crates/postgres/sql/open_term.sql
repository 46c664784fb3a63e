-- A row to lock for a term that nobody has held yet. Before the first epoch, and over since ever.
-- $1 name  $2 holder
-- Differs: SQLite has one writer at a time, so nothing to lock.
INSERT INTO windlass.terms VALUES ($1, $2, 0, '-infinity') ON CONFLICT (name) DO NOTHING
