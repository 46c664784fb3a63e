-- One approval.
-- ?1 approval
SELECT * FROM approvals WHERE id = ?1
