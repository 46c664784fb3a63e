-- A job that is about to be handed out by itself leaves the line and is held. Its row is locked, and moved after this.
-- $1 job  $2 the claim's number  $3 worker  $4 when its lease will be over
-- Differs: SQLite finds what is held in the one index of what is due.
WITH unlined AS (
  DELETE FROM windlass.line l USING windlass.jobs j
  WHERE j.id = $1 AND l.queue = j.queue AND l.priority = j.priority AND l.due_at = j.due_at AND l.id = j.id
)
INSERT INTO windlass.holds (claim, worker_id, check_at, ids) VALUES ($2, $3, $4, ARRAY[$1::uuid])
ON CONFLICT (claim) DO UPDATE SET check_at = least(holds.check_at, excluded.check_at),
  ids = ARRAY(SELECT i FROM unnest(holds.ids) i WHERE i <> ALL (excluded.ids)) || excluded.ids,
  over = ARRAY(SELECT o FROM unnest(holds.over) o WHERE o <> ALL (excluded.ids))
