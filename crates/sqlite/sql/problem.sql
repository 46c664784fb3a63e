-- One problem.
-- ?1 fingerprint
SELECT body FROM problems WHERE fingerprint = ?1
