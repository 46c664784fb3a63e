-- Removes finished jobs that are still at these versions, whole.
-- $1 jobs  $2 versions
SELECT windlass.purge($1, $2)
