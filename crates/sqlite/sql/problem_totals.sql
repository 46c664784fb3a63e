-- How often a problem was seen in all.
-- ?1 fingerprint
SELECT coalesce(sum(errors), 0), coalesce(sum(dead), 0) FROM problem_hours WHERE fingerprint = ?1
