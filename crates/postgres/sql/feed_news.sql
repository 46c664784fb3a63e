-- How far the feed has come since a snapshot: this store, the newest snapshot, the newest number, and whether more
-- events than so many are new.
-- $1 older snapshot  $2 so many
-- The number is read after the snapshot was taken: what that snapshot sees has none above it.
SELECT store_id, pg_current_snapshot()::text, coalesce(pg_sequence_last_value('windlass.job_events_seq_seq'::regclass), 0),
  (SELECT count(*) FROM (
    SELECT FROM windlass.job_events WHERE tx >= pg_snapshot_xmax($1::text::pg_snapshot) LIMIT $2 + 1
  ) new) > $2
FROM windlass.store
