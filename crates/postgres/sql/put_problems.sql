-- Problems as they stand.
-- $1 fingerprints  $2 states  $3 kinds  $4 last seen  $5 bodies
INSERT INTO windlass.problems
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[])
ON CONFLICT (fingerprint) DO UPDATE SET state = excluded.state, last_seen_at = excluded.last_seen_at, body = excluded.body
