-- How the server is set, and what is open longest in this database: a transaction, and a prepared one.
-- $1 now
SELECT current_setting('server_version'), coalesce($1::timestamptz, clock_timestamp()),
  current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
  current_setting('autovacuum') = 'on', o.xact_start, o.pid, o.who, o.state, p.prepared, p.gid
FROM (SELECT 1) one LEFT JOIN LATERAL (
  SELECT xact_start, pid, concat_ws(' ', usename, nullif(application_name, '')) AS who, state FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND xact_start IS NOT NULL
  ORDER BY xact_start LIMIT 1
) o ON true LEFT JOIN LATERAL (
  SELECT prepared, gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1
) p ON true
