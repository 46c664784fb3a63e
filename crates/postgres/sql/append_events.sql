-- Entries of several logs, none of them the first of its log.
-- $1 jobs  $2 versions  $3 at  $4 types  $5 actors  $6 attempts  $7 generations  $8 leases  $9 keys  $10 details
-- $11 is_json  $12 payloads
-- Differs: SQLite appends one by one.
INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::int[], $7::int[], $8::bytea[],
  $9::text[], $10::text[], $11::boolean[], $12::bytea[])
