-- A row of numbers, in the place of the one that is there.
-- ?1 resolution  ?2 slot  ?3 queue  ?4 kind  ?5 tally  ?6 count  ?7 times
INSERT INTO rollups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (resolution, at, queue, kind, tally) DO UPDATE SET n = ?6, times = ?7
