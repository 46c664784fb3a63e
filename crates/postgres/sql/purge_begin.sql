-- From here on this transaction may delete.
-- Differs: a setting of the transaction, not a mark per job.
SET LOCAL windlass.purging = 'on'
