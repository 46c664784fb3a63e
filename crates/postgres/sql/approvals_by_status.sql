-- A page of approvals that stand somewhere, newest first. Pending ones past their time have expired.
-- $1 before  $2 limit  $3 status
SELECT * FROM windlass.approvals WHERE status = $3 AND id < $1 ORDER BY id DESC LIMIT $2
