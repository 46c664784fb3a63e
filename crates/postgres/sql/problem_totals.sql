-- How often problems were seen in all.
-- $1 fingerprints
-- Differs: SQLite reads one problem at a time.
SELECT fingerprint, sum(errors)::bigint, sum(dead)::bigint FROM windlass.problem_hours
WHERE fingerprint = ANY ($1) GROUP BY fingerprint
