-- Whose term it is.
-- $1 name
SELECT name, holder, epoch, expires_at FROM windlass.terms WHERE name = $1
