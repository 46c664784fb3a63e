-- The one door through which a job moves: everything that can change, in one update, beside one event. It opens only
-- along a legal transition: the guard's triggers, which cost a third of the throughput, are for other connections.
-- ?1 job  ?2 status  ?3 due_at  ?4 deadline_at  ?5 worker_id  ?6 lease_hash  ?7 lease_expires_at  ?8 epoch
-- ?9 assignment  ?10 attempt  ?11 retries  ?12 crashes  ?13 version  ?14 generation  ?15 progress  ?16 stage
-- ?17 waiting_for  ?18 wait_name  ?19 wait_version  ?20 wake_version  ?21 signals  ?22 children
-- ?23 cancel_requested_at  ?24 steps_from  ?25 result_version  ?26 error_version  ?27 error_code
-- ?28 checkpoint_version  ?29 payload_version  ?30 meta_version  ?31 started_at  ?32 updated_at  ?33 finished_at
-- ?34 dependents or null
UPDATE jobs SET status = ?2, due_at = ?3, deadline_at = ?4, worker_id = ?5, lease_hash = ?6, lease_expires_at = ?7,
  epoch = ?8, assignment = ?9, attempt = ?10, retries = ?11, crashes = ?12, version = ?13, generation = ?14,
  progress = ?15, stage = ?16, waiting_for = ?17, wait_name = ?18, wait_version = ?19, wake_version = ?20,
  signals = ?21, children = ?22, cancel_requested_at = ?23, steps_from = ?24, result_version = ?25,
  error_version = ?26, error_code = ?27, checkpoint_version = ?28, payload_version = ?29,
  meta_version = ?30, started_at = ?31, updated_at = ?32, finished_at = ?33,
  dependents = ?34
WHERE id = ?1 AND version = ?13 - 1 AND (status = ?2 OR CASE status
    WHEN 'pending' THEN ?2 = 'assigned' OR ?2 = 'running' OR ?2 = 'cancelled'
    WHEN 'assigned' THEN ?2 = 'running' OR ?2 = 'orphaned' OR ?2 = 'cancelled'
    WHEN 'running' THEN ?2 = 'retry' OR ?2 = 'waiting' OR ?2 = 'completed' OR ?2 = 'failed' OR ?2 = 'timed_out'
      OR ?2 = 'cancelled'
    WHEN 'retry' THEN ?2 = 'assigned' OR ?2 = 'running' OR ?2 = 'failed' OR ?2 = 'cancelled'
    WHEN 'waiting' THEN ?2 = 'assigned' OR ?2 = 'running' OR ?2 = 'completed' OR ?2 = 'failed' OR ?2 = 'cancelled'
    WHEN 'orphaned' THEN ?2 = 'assigned' OR ?2 = 'running' OR ?2 = 'cancelled'
    WHEN 'failed' THEN ?2 = 'pending'
    WHEN 'timed_out' THEN ?2 = 'pending'
    WHEN 'cancelled' THEN ?2 = 'pending' OR ?2 = 'waiting'
    ELSE 0 END)
