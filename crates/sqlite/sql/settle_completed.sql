-- What settle_complete_event.sql has just logged.
-- Read back from the end of the log, which costs less than the table that a RETURNING keeps.
-- ?1 last seq before it
SELECT job_id, version, payload IS NOT NULL FROM job_events WHERE seq > ?1
