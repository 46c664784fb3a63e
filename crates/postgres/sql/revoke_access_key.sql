-- Takes an access key back.
-- $1 name  $2 now
UPDATE windlass.access_keys SET revoked_at = $2 WHERE name = $1
