-- A page of unique keys whose job was not removed, each with what its first event says; only verify reads them.
-- ?1 after scope  ?2 after key  ?3 limit
SELECT k.scope, k.key, k.job_id, e.detail FROM job_keys k
LEFT JOIN job_events e ON e.job_id = k.job_id AND e.version = 1
WHERE (k.scope, k.key) > (?1, ?2) AND k.outcome IS NULL ORDER BY k.scope, k.key LIMIT ?3
