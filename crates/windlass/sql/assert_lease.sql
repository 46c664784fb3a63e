-- Locks a held job in the caller's own transaction and checks that the token is its live lease; answers its attempt.
-- $1 job  $2 lease token
SELECT (windlass.assert_lease($1::uuid, $2)).attempt::text
