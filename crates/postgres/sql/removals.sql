-- When jobs were removed, as often as they were.
-- $1 jobs
SELECT job_id, version, removed_at FROM windlass.removals WHERE job_id = ANY ($1::uuid[]) ORDER BY job_id, version
