-- What jobs cost that say so in their first event.
-- $1 jobs
SELECT e.job_id, (e.detail::json ->> 'cost')::int
FROM unnest($1::uuid[]) a (id) JOIN windlass.job_events e ON e.job_id = a.id AND e.version = 1
WHERE e.detail::json ->> 'cost' IS NOT NULL
