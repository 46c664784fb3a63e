-- The ledger.
SELECT id, checksum FROM windlass.migrations ORDER BY id
