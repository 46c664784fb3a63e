-- Completes a held job in the caller's own transaction and answers its version.
-- $1 job  $2 lease token  $3 result
SELECT windlass.complete($1::uuid, $2, $3::json)::text
