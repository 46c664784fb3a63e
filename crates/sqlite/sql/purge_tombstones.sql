-- Removes what an earlier purge left of a job under this id.
-- ?1 job
DELETE FROM tombstones WHERE job_id = ?1
