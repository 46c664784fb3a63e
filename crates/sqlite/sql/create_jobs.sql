-- The rows of jobs that differ only in id, beside their first events. It is create_job.sql for many.
-- ?1 ids  ?2 queue  ?3 kind  ?4 priority  ?5 due_at  ?6 max_retries  ?7 parent  ?8 unique_policy  ?9 timeout_ms
-- ?10 lease_ms  ?11 grace_ms  ?12 backoff  ?13 meta_version  ?14 now  ?15 lane
-- Mirrors core's Job::created().
INSERT INTO jobs (id, queue, kind, priority, due_at, max_retries, parent_id, unique_policy, timeout_ms, lease_ms, grace_ms,
  backoff, meta_version, created_at, updated_at, status, attempt, retries, crashes, version, generation, progress, signals,
  children, steps_from, lane)
SELECT a.value, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, 'pending', 0, 0, 0, 1, 0, 0, 0, 0, 0, ?15
FROM rarray(?1) a
