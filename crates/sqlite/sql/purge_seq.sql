-- Keeps the feed's numbers from being handed out again.
-- ?1 seq
UPDATE windlass_store SET purged_seq = max(purged_seq, ?1)
