-- Jobs past their deadline that can be acted on, oldest first, behind a place. An assignment to a worker that is there
-- is passed over, so that it never keeps the others waiting.
-- $1 now  $2 limit  $3 behind this deadline_at  $4 and this id, or null
-- Differs: others may hold rows, which are passed over, so the next page begins behind them.
SELECT id, deadline_at, parent_id FROM windlass.jobs j
WHERE deadline_at <= $1 AND ($3::timestamptz IS NULL OR (deadline_at, id) > ($3, $4::uuid)) AND (status <> 'assigned'
  OR NOT EXISTS (SELECT 1 FROM windlass.workers w WHERE w.id = j.worker_id AND w.expires_at > $1
    AND NOT w.draining))
ORDER BY deadline_at, id LIMIT (SELECT $2::bigint)
