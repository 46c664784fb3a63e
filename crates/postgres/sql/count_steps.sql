-- How many steps and tools of a job ended: each ends once.
-- $1 job  $2 after
SELECT count(*) FROM windlass.job_events WHERE job_id = $1 AND version > $2 AND type IN ('node_finished', 'tool_returned')
