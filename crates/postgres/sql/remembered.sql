-- What a resumed run is given: steps, waits, signals.
-- $1 job  $2 after
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, is_json, payload
FROM windlass.job_events WHERE job_id = $1 AND version > $2
  AND type IN ('node_started', 'node_finished', 'tool_called', 'tool_returned', 'job_waiting', 'job_signalled',
    'job_woken', 'job_child_finished', 'job_approval_voted', 'job_claimed', 'job_redriven', 'job_forked')
ORDER BY version
