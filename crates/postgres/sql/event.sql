-- One entry of one job's log.
-- $1 job  $2 version
SELECT * FROM windlass.job_events WHERE job_id = $1 AND version = $2
