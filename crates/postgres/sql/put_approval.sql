-- A new approval, or where an old one stands now. Nothing when the id is another job's.
-- $1 id  $2 job  $3 name  $4 status  $5 required  $6 approved  $7 expires_at  $8 token_hash  $9 token_used
-- $10 asked_version  $11 asked_at  $12 decided_at
-- Differs: another job may have taken the id since it was looked up.
INSERT INTO windlass.approvals AS a VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (id) DO UPDATE SET status = $4, required = $5, approved = $6, expires_at = $7, token_hash = $8,
  token_used = $9, asked_version = $10, decided_at = $12
WHERE a.job_id = $2 RETURNING id
