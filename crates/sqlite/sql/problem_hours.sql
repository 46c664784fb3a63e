-- How often a problem was seen, by hour.
-- ?1 fingerprint  ?2 since
SELECT at, errors, dead FROM problem_hours
WHERE fingerprint = ?1 AND at >= ?2 AND (errors <> 0 OR dead <> 0) ORDER BY at
