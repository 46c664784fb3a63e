-- Wakes other processes.
-- $1 channel  $2 message
-- A notification takes a number of its own for its transaction, and would wait for the disk with everybody behind it. It is
-- worth neither: what a crash of the server loses was a hint to connections that are gone as well.
SELECT pg_notify($1::text, $2::text), set_config('synchronous_commit', 'off', true)
