-- The last number of the feed, this store, the last moment written, whether the last numbers were purged, the
-- incarnation, the highest number of which a purge may have removed the entry, and why the store takes no writes.
SELECT max(coalesce((SELECT max(seq) FROM job_events), 0), purged_seq), store_id,
  coalesce((SELECT at FROM job_events ORDER BY seq DESC LIMIT 1), 0),
  purged_seq > coalesce((SELECT max(seq) FROM job_events), 0), incarnation, purged_seq,
  closed
FROM windlass_store
