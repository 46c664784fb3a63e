-- A queue's settings. Nothing when somebody else made the queue since it was looked up.
-- $1 name  $2 paused_at  $3 paused_by  $4 defaults  $5 mode  $6 whether it was there  $7 flow  $8 endpoint
-- Differs: a row that was not there could not be locked.
INSERT INTO windlass.queues VALUES ($1, $2, $3, $4, $5, $7, $8)
ON CONFLICT (name) DO UPDATE SET paused_at = $2, paused_by = $3, defaults = $4, mode = $5, flow = $7, endpoint = $8
WHERE $6 RETURNING name
