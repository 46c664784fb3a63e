-- One approval.
-- $1 approval
SELECT * FROM windlass.approvals WHERE id = $1
