-- The audit, newest first.
-- $1 before  $2 limit
SELECT seq, at, actor, action, target, detail FROM windlass.audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2
