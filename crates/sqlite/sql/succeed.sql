-- Makes this store the later life of another: fences and numbers are higher than any it gave.
-- ?1 the least incarnation  ?2 the highest number of an event that was purged there
-- Differs: PostgreSQL moves its sequence too.
UPDATE windlass_store SET incarnation = max(incarnation, ?1), purged_seq = max(purged_seq, ?2)
