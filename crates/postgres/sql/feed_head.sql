-- Where the feed stands: this store, its server, the newest snapshot with its marks, and what a cursor's last event is.
-- $1 the number of the last event that the cursor names
-- One statement, so that all of it is of one snapshot. The first mark is the newest; the second is the newest before the
-- oldest transaction that runs.
SELECT s.store_id, s.incarnation, h.system_id, h.timeline,
  (s.system_id, s.timeline) IS DISTINCT FROM (h.system_id, h.timeline), s.base_seq, s.purged_seq,
  pg_current_snapshot()::text, coalesce(m.tx::text, '0'), coalesce(m.seq, s.base_seq),
  coalesce((SELECT seq FROM windlass.marks WHERE tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY tx DESC LIMIT 1),
    s.base_seq),
  coalesce(pg_sequence_last_value('windlass.job_events_seq_seq'::regclass), 0),
  l.job_id, l.version, l.at, l.type
FROM windlass.store s CROSS JOIN windlass.server() h
LEFT JOIN LATERAL (SELECT tx, seq FROM windlass.marks ORDER BY tx DESC LIMIT 1) m ON true
LEFT JOIN windlass.job_events l ON l.seq = $1
