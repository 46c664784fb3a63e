-- The last number of the feed and the last moment written.
SELECT max(coalesce((SELECT max(seq) FROM job_events), 0), purged_seq), store_id,
  coalesce((SELECT at FROM job_events ORDER BY seq DESC LIMIT 1), 0)
FROM windlass_store
