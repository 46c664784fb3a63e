-- Lines of a job's log.
-- $1 job  $2 after  $3 limit
SELECT n, at, attempt, line FROM windlass.job_logs WHERE job_id = $1 AND n > $2 ORDER BY n LIMIT $3
