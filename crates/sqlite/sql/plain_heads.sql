-- Who is next among the jobs without a key, or among all: reads at most ?5 entries of the index.
-- ?1 queue  ?2 priority  ?3 now  ?4 whether keys do not matter  ?5 look
SELECT id, kind, status, due_at FROM (
  SELECT id, kind, status, lane, due_at FROM jobs INDEXED BY jobs_due
  WHERE queue = ?1 AND priority = ?2 AND due_at <= ?3 ORDER BY due_at, id LIMIT ?5
) WHERE ?4 OR lane IS NULL ORDER BY due_at, id
