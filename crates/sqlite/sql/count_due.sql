-- Jobs with a due time by status, reading at most ?1 of them.
-- ?1 cap
SELECT status, count(*) FROM (SELECT status FROM jobs INDEXED BY jobs_due WHERE due_at IS NOT NULL LIMIT ?1) GROUP BY status
