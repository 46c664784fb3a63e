-- Leaves of an event what an erasure keeps.
-- ?1 job  ?2 version  ?3 detail
UPDATE job_events SET payload = NULL, is_json = NULL, detail = ?3 WHERE job_id = ?1 AND version = ?2
