-- The file that the store was in when it was last opened.
SELECT file FROM windlass_store
