-- Puts jobs whose lease is over back into line, and forgets holds of which nothing is held any more.
-- What was renewed, or is locked just now, is looked at again later. Returns how many holds were looked at.
-- $1 now or null  $2 limit
-- Differs: SQLite finds them in the one index of what is due.
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), looked AS MATERIALIZED (
  SELECT claim, ids, over FROM windlass.holds WHERE check_at <= (SELECT now FROM moment)
  ORDER BY check_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
  SELECT h.claim, j.id, j.due_at FROM looked h CROSS JOIN LATERAL unnest(h.ids) i (id) CROSS JOIN LATERAL (
    SELECT id, due_at FROM windlass.jobs WHERE jobs.id = i.id AND claim = h.claim AND status = 'running' OFFSET 0) j
), over AS MATERIALIZED (
  SELECT h.claim, j.queue, j.priority, j.due_at, j.id, j.lane FROM held h CROSS JOIN LATERAL (
    SELECT queue, priority, due_at, id, lane FROM windlass.jobs
    WHERE jobs.id = h.id AND claim = h.claim AND status = 'running' AND due_at <= (SELECT now FROM moment)
    FOR UPDATE SKIP LOCKED) j
  WHERE h.due_at <= (SELECT now FROM moment)
), back AS (
  INSERT INTO windlass.line (queue, priority, due_at, id, lane) SELECT queue, priority, due_at, id, lane FROM over
), left_over AS MATERIALIZED (
  SELECT claim, id, NULL::timestamptz AS due_at, true AS over FROM over
  UNION ALL
  SELECT h.claim, j.id, NULL, true FROM looked h CROSS JOIN LATERAL unnest(h.over) i (id) CROSS JOIN LATERAL (
    SELECT id FROM windlass.jobs WHERE jobs.id = i.id AND claim = h.claim AND status = 'running' OFFSET 0) j
  UNION ALL
  SELECT h.claim, h.id, h.due_at, false FROM held h WHERE NOT EXISTS (SELECT 1 FROM over o WHERE o.id = h.id)
), rest AS MATERIALIZED (
  SELECT claim, coalesce(array_agg(id) FILTER (WHERE NOT over), '{}') AS ids,
    coalesce(array_agg(id) FILTER (WHERE over), '{}') AS over, min(due_at) AS due_at FROM left_over GROUP BY claim
), later AS (
  UPDATE windlass.holds h SET ids = r.ids, over = r.over, check_at = coalesce(
    greatest(r.due_at, (SELECT now FROM moment) + interval '1 second'), (SELECT now FROM moment) + interval '10 seconds')
  FROM rest r WHERE h.claim = r.claim
), gone AS (
  DELETE FROM windlass.holds WHERE claim = ANY (ARRAY(
    SELECT claim FROM looked l WHERE NOT EXISTS (SELECT 1 FROM rest r WHERE r.claim = l.claim)))
)
SELECT count(*) FROM looked
