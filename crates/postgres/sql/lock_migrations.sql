-- One migrator at a time in this database; freed at the end of the transaction.
SELECT pg_advisory_xact_lock(7718110199)
