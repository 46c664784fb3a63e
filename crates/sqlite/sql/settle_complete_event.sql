-- The completions that can be made many at once; others are left out.
-- Each is held under its own live lease, and nothing follows from its end: it has no parent, no key to free and no
-- approval, for nothing happened since it was claimed for the first time.
-- ?1 per job: its id, its lease hash, whether the result is JSON or absent, and the result  ?2 now
-- Mirrors core's decide() for a completion.
INSERT INTO job_events (job_id, version, at, type, actor, attempt, generation, lease, is_json, payload)
SELECT j.id, j.version + 1, ?2, 'job_completed', 'worker:' || j.worker_id, j.attempt, j.generation, j.lease_hash,
  CASE substr(a.value, 33, 1) WHEN x'00' THEN 0 WHEN x'01' THEN 1 END,
  CASE WHEN substr(a.value, 33, 1) <> x'02' THEN substr(a.value, 34) END
FROM rarray(?1) a CROSS JOIN jobs j ON j.id = substr(a.value, 1, 16)
WHERE j.status = 'running' AND j.lease_hash = substr(a.value, 17, 16) AND j.due_at > ?2
  AND (j.deadline_at IS NULL OR j.deadline_at > ?2) AND j.version = 2 AND j.parent_id IS NULL
  AND j.unique_policy IS NOT 'active'
