-- How a removed job ended, while a unique key keeps its id.
-- $1 job
SELECT k.outcome FROM windlass.job_keys k WHERE k.job_id = $1 AND k.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM windlass.jobs j WHERE j.id = $1) LIMIT 1
