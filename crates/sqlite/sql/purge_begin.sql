-- Marks a job as being purged: its row and history may be deleted in this transaction.
-- ?1 job
INSERT INTO purging (job_id) VALUES (?1)
