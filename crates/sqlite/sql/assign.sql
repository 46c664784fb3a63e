-- Gives jobs to workers, many at once. What each becomes, core has decided; this must come to the same.
-- ?1 jobs as JSON: id in hex, version, worker, detail  ?2 now  ?3 deadline_at  ?4 epoch  ?5 term
-- Mirrors core's decide() for Command::Assign. The epoch is compared once more where it is written.
UPDATE jobs SET status = 'assigned', version = g.version, due_at = NULL, deadline_at = ?3, worker_id = g.worker, epoch = ?4,
  assignment = g.version, waiting_for = NULL, wait_name = NULL, updated_at = ?2
FROM (SELECT unhex(value ->> 0) AS id, value ->> 1 AS version, value ->> 2 AS worker FROM json_each(?1)) g
WHERE jobs.id = g.id AND jobs.version = g.version - 1 AND status IN ('pending', 'retry', 'orphaned', 'waiting')
  AND EXISTS (SELECT 1 FROM terms WHERE name = ?5 AND epoch = ?4)
