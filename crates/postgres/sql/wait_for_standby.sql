-- Writes a record into the server's log, so that the commit waits for the standby also if nothing else is written.
SELECT pg_logical_emit_message(true, 'windlass', ''::text)
