-- Completes the jobs whose completion was just logged.
-- ?1 jobs  ?2 now  ?3 whether there are results
-- Mirrors core's decide() for a completion.
UPDATE jobs SET status = 'completed', version = version + 1, progress = 100,
  result_version = CASE WHEN ?3 THEN version + 1 END, error_version = NULL, error_code = NULL,
  due_at = NULL, deadline_at = NULL, worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
  finished_at = ?2, updated_at = ?2
WHERE id IN (SELECT value FROM rarray(?1)) AND status = 'running'
