-- Leaves where lines are that moved to the archive.
-- ?1 job  ?2 first  ?3 last  ?4 part  ?5 now
INSERT INTO job_log_parts (job_id, first_n, last_n, part, moved_at) VALUES (?1, ?2, ?3, ?4, ?5)
