-- Notes the file that the store is in; if it was in another one before, begins a new incarnation.
-- ?1 file
UPDATE windlass_store SET incarnation = incarnation + (file IS NOT NULL), file = ?1 WHERE file IS NOT ?1
