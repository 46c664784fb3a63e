-- This store, the newest snapshot, and where the feed's numbers are.
SELECT store_id, pg_current_snapshot()::text FROM windlass.store
