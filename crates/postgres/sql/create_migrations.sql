-- The schema and the ledger of migrations.
CREATE SCHEMA IF NOT EXISTS windlass;
CREATE TABLE IF NOT EXISTS windlass.migrations (
  id bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL)
