-- The database's clock, now and not when the transaction began.
SELECT clock_timestamp()
