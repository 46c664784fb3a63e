-- The number of the newest event, or of one that is still to come or never will, and the incarnation.
-- The number is null before the first.
SELECT pg_sequence_last_value('windlass.job_events_seq_seq'::regclass), incarnation FROM windlass.store
