-- What is left of a removed job, while a tombstone or a unique key keeps its id.
-- ?1 job
SELECT t.status, t.finished_at, t.archive FROM tombstones t WHERE t.job_id = ?1
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = ?1)
UNION ALL
SELECT k.outcome, NULL, NULL FROM job_keys k WHERE k.job_id = ?1 AND k.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = ?1) LIMIT 1
