-- The feed after a number, with what filters ask about.
-- ?1 after  ?2 limit
SELECT e.*, j.queue, j.kind FROM job_events e JOIN jobs j ON j.id = e.job_id WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2
