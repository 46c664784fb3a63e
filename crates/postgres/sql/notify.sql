-- Wakes other processes.
-- $1 channel  $2 message
SELECT pg_notify($1::text, $2::text)
