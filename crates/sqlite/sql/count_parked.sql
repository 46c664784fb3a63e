-- Jobs that wait for something without a due time, by status, reading at most ?1 of each.
-- ?1 cap  ?2 status
SELECT count(*) FROM (SELECT 1 FROM jobs
  WHERE status = ?2 AND (waiting_for IS NOT NULL OR assignment IS NOT NULL) AND due_at IS NULL LIMIT ?1)
