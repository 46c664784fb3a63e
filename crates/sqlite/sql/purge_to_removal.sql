-- Puts on record that a job was removed, so that seals over its log are not missed.
-- ?1 job  ?2 version  ?3 now
INSERT OR IGNORE INTO removals (job_id, version, removed_at) VALUES (?1, ?2, ?3)
