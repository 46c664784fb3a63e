-- The live term of somebody else: who wants it need not lock it, nor write anything.
-- $1 name  $2 holder  $3 now or null
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, holder, epoch, expires_at FROM windlass.terms
WHERE name = $1 AND holder <> $2 AND expires_at > coalesce($3::timestamptz, clock_timestamp())
