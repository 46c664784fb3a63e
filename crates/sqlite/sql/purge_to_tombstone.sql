-- Leaves of a purged job how it ended and where it was archived.
-- ?1 job  ?2 status  ?3 finished_at  ?4 archive  ?5 now
INSERT INTO tombstones (job_id, status, finished_at, archive, purged_at) VALUES (?1, ?2, ?3, ?4, ?5)
