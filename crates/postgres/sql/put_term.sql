-- A term taken, renewed or ended; the caller has looked under the same lock.
-- $1 name  $2 holder  $3 epoch  $4 expires_at
INSERT INTO windlass.terms VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE SET holder = $2, epoch = $3, expires_at = $4
