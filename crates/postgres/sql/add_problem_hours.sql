-- Adds to how often problems were seen in an hour.
-- $1 fingerprints  $2 hours  $3 errors  $4 dead
INSERT INTO windlass.problem_hours AS h SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[])
ON CONFLICT (fingerprint, at) DO UPDATE SET errors = h.errors + excluded.errors, dead = h.dead + excluded.dead
