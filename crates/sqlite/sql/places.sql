-- How far every reader has come.
SELECT name, cursor, epoch, moved_at, since FROM readers ORDER BY name
