-- Whether there is a ledger.
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_migrations'
