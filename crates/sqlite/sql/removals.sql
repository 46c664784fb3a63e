-- When jobs were removed, as often as they were.
-- ?1 jobs
SELECT job_id, version, removed_at FROM removals WHERE job_id IN rarray(?1) ORDER BY job_id, version
