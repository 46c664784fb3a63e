-- Adds to how often a problem was seen in an hour.
-- ?1 fingerprint  ?2 hour  ?3 errors  ?4 dead
INSERT INTO problem_hours VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (fingerprint, at) DO UPDATE SET errors = errors + ?3, dead = dead + ?4
