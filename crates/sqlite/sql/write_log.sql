-- A line of a job's log.
-- ?1 job  ?2 n  ?3 at  ?4 attempt  ?5 line
INSERT INTO job_logs (job_id, n, at, attempt, line) VALUES (?1, ?2, ?3, ?4, ?5)
