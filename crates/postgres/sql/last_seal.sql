-- The end of the chain of seals.
SELECT number, at, store_id, incarnation, body, hash FROM windlass.seals ORDER BY number DESC LIMIT 1
