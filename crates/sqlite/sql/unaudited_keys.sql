-- Access keys without an entry in the audit; only verify looks for them.
-- ?1 limit
SELECT k.name FROM access_keys k WHERE NOT EXISTS (SELECT 1 FROM audit u WHERE u.target = k.name
  AND u.action = CASE WHEN k.revoked_at IS NULL THEN 'key.create' ELSE 'key.revoke' END)
ORDER BY k.name LIMIT ?1
