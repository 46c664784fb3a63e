-- The dead rows of the two large tables, and when autovacuum was there last.
SELECT c.relname::text, s.n_live_tup, s.n_dead_tup, s.last_autovacuum
FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.oid IN ('windlass.jobs'::regclass, 'windlass.job_events'::regclass) ORDER BY c.relname DESC
