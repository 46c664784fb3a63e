-- The first events of jobs that are there.
-- $1 jobs
SELECT e.* FROM unnest($1::uuid[]) a (id) JOIN windlass.job_events e ON e.job_id = a.id AND e.version = 1
