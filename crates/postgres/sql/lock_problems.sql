-- Locks problems and reads them.
-- $1 fingerprints
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT body FROM windlass.problems WHERE fingerprint = ANY ($1) ORDER BY fingerprint FOR UPDATE
