-- Whether there is a ledger.
SELECT to_regclass('windlass.migrations') IS NOT NULL
