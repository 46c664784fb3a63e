-- What jobs cost that say so in their first event.
-- ?1 jobs
SELECT e.job_id, json_extract(e.detail, '$.cost')
FROM rarray(?1) a CROSS JOIN job_events e ON e.job_id = a.value AND e.version = 1
WHERE json_extract(e.detail, '$.cost') IS NOT NULL
