-- Facts and payloads of jobs that are there.
-- ?1 jobs
SELECT e.job_id, e.detail, e.is_json, e.payload
FROM rarray(?1) a CROSS JOIN job_events e ON e.job_id = a.value AND e.version = 1
