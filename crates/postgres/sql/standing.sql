-- Which store this is, how often it was restored, up to where events were purged, and why it takes no writes.
-- Differs: SQLite reads it with the head of its feed.
SELECT store_id, incarnation, purged_seq, closed FROM windlass.store
