-- Removes finished jobs that are still at these versions, whole, and leaves tombstones that name the archive.
-- $1 jobs  $2 versions  $3 archive  $4 now
SELECT windlass.purge($1, $2, $3, $4)
