-- One problem.
-- $1 fingerprint
SELECT body FROM windlass.problems WHERE fingerprint = $1
