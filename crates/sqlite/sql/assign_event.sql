-- The events of assign.sql, in the order given.
-- ?1 jobs as JSON: id in hex, version, worker, detail  ?2 now  ?3 actor
INSERT INTO job_events (job_id, version, at, type, actor, attempt, generation, detail)
SELECT j.id, j.version, ?2, 'job_assigned', ?3, j.attempt, j.generation, g.value ->> 3
FROM json_each(?1) g CROSS JOIN jobs j ON j.id = unhex(g.value ->> 0)
