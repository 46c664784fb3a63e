-- A page of jobs that have a log, and whether each has a row; only verify reads it.
-- ?1 after job  ?2 events to look at
SELECT DISTINCT l.job_id, EXISTS (SELECT 1 FROM jobs j WHERE j.id = l.job_id) FROM (
  SELECT job_id FROM job_events WHERE job_id > ?1 ORDER BY job_id, version LIMIT ?2
) l ORDER BY l.job_id
