-- A page of approvals, newest first.
-- $1 before  $2 limit
SELECT * FROM windlass.approvals WHERE id < $1 ORDER BY id DESC LIMIT $2
