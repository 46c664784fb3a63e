-- The entry with a caller's key.
-- $1 job  $2 key
SELECT * FROM windlass.job_events WHERE job_id = $1 AND key = $2
