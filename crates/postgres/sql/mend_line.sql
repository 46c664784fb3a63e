-- Makes the line, the holds and the slots say of every job what its row says.
-- Entries of the line that point at nothing go, missing ones come.
-- Returns how many were changed.
-- Differs: SQLite has one index of what is due, which cannot differ from its rows.
WITH stray AS (
  DELETE FROM windlass.line WHERE ctid = ANY (ARRAY(
    SELECT l.ctid FROM (
      SELECT ctid, id, due_at, row_number() OVER (PARTITION BY queue, priority, due_at, id ORDER BY ctid) AS n
      FROM windlass.line) l
    WHERE l.n > 1 OR NOT EXISTS (SELECT 1 FROM windlass.jobs j WHERE j.id = l.id AND j.due_at = l.due_at))) RETURNING id
), lost AS MATERIALIZED (
  SELECT j.queue, j.priority, j.due_at, j.id, j.lane, j.worker_id, j.claim, j.status FROM windlass.jobs j
  WHERE j.due_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM windlass.line l
      WHERE l.queue = j.queue AND l.priority = j.priority AND l.due_at = j.due_at AND l.id = j.id)
    AND NOT EXISTS (SELECT 1 FROM windlass.holds h WHERE h.claim = j.claim AND j.status = 'running' AND j.id = ANY (h.ids))
  FOR UPDATE OF j SKIP LOCKED
), lined AS (
  INSERT INTO windlass.line (queue, priority, due_at, id, lane)
  SELECT queue, priority, due_at, id, lane FROM lost WHERE status <> 'running' OR claim IS NULL RETURNING id
), held AS (
  INSERT INTO windlass.holds (claim, worker_id, check_at, ids)
  SELECT claim, min(worker_id), min(due_at), array_agg(id) FROM lost WHERE status = 'running' AND claim IS NOT NULL
  GROUP BY claim
  ON CONFLICT (claim) DO UPDATE SET check_at = least(holds.check_at, excluded.check_at),
    ids = ARRAY(SELECT i FROM unnest(holds.ids) i WHERE i <> ALL (excluded.ids)) || excluded.ids,
    over = ARRAY(SELECT o FROM unnest(holds.over) o WHERE o <> ALL (excluded.ids))
), slotted AS (
  INSERT INTO windlass.slots (queue, id, lane)
  SELECT j.queue, j.id, j.lane FROM windlass.queues q
  JOIN windlass.jobs j ON j.queue = q.name AND j.status IN ('running', 'assigned') WHERE q.flow IS NOT NULL
  ON CONFLICT DO NOTHING RETURNING id
)
SELECT (SELECT count(*) FROM stray) + (SELECT count(*) FROM lost) + (SELECT count(*) FROM slotted)
