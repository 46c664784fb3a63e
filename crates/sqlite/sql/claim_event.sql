-- The events of claim.sql, in the order the jobs were found.
-- ?1 rows  ?2 actor  ?3 now
-- Mirrors core's hand_out().
INSERT INTO job_events (job_id, version, at, type, actor, attempt, generation, lease)
SELECT j.id, j.version, ?3, 'job_claimed', ?2, j.attempt, j.generation, j.lease_hash
FROM rarray(?1) a CROSS JOIN jobs j ON j.rowid = a.value
