-- What a cursor's last event is recognised by.
-- ?1 seq
SELECT job_id, version, at, type FROM job_events WHERE seq = ?1
