-- The rows that due_of_kinds.sql found, in that order.
-- ?1 jobs
SELECT j.*, j.rowid FROM rarray(?1) a CROSS JOIN jobs j ON j.id = a.value
