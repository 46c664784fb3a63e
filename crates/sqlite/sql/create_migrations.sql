-- The ledger of migrations.
CREATE TABLE IF NOT EXISTS windlass_migrations (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT
