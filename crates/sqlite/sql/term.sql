-- Whose term it is.
-- ?1 name
SELECT name, holder, epoch, expires_at FROM terms WHERE name = ?1
