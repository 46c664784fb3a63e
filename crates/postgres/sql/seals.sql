-- A stretch of the chain of seals, upwards.
-- $1 after  $2 limit
SELECT number, at, store_id, incarnation, body, hash FROM windlass.seals
WHERE number > $1 ORDER BY number LIMIT (SELECT $2::bigint)
