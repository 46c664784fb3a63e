-- How often problems were seen, by hour.
-- $1 fingerprints  $2 since
-- Differs: SQLite reads one problem at a time.
SELECT fingerprint, at, errors, dead FROM windlass.problem_hours
WHERE fingerprint = ANY ($1) AND at >= $2 AND (errors <> 0 OR dead <> 0) ORDER BY fingerprint, at
