-- Makes this store the later life of another: fences and numbers are higher than any it gave.
-- $1 the least incarnation  $2 the highest number of an event that was purged there
SELECT windlass.succeed($1, $2)
