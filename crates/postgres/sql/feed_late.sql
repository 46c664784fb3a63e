-- The numbers under which transactions logged that an older snapshot saw running, and how far was looked for them.
-- $1 after seq  $2 to seq  $3 transactions  $4 how many events to look at
SELECT coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE tx = ANY ($3::text[]::xid8[])), '{}'), max(seq), count(*)
FROM (SELECT seq, tx FROM windlass.job_events WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $4) looked
