-- A seal at the end of the chain.
-- $1 number  $2 at  $3 store  $4 incarnation  $5 body  $6 hash
INSERT INTO windlass.seals (number, at, store_id, incarnation, body, hash) VALUES ($1, $2, $3, $4, $5, $6)
