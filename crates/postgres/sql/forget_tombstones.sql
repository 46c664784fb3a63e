-- Removes old tombstones, some at a time.
-- $1 before  $2 limit
-- Differs: one that another transaction holds is passed over.
WITH gone AS (DELETE FROM windlass.tombstones WHERE job_id = ANY (ARRAY(
    SELECT job_id FROM windlass.tombstones WHERE purged_at < $1 ORDER BY purged_at LIMIT $2
    FOR UPDATE SKIP LOCKED)) RETURNING job_id)
SELECT count(*) FROM gone
