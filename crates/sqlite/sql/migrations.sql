-- The ledger.
SELECT id, checksum FROM windlass_migrations ORDER BY id
