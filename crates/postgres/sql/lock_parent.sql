-- Locks the parent of a job, before the job itself: parents come first in the order of locks.
-- $1 job
SELECT p.id FROM windlass.jobs p WHERE p.id = (SELECT parent_id FROM windlass.jobs WHERE id = $1) FOR UPDATE
