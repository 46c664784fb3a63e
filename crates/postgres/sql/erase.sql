-- Leaves of some events of a finished job what an erasure keeps, and of its log lines their last number.
-- $1 job  $2 version of the job  $3 versions  $4 details  $5 number of the last line  $6 mark of erased lines  $7 now
SELECT windlass.erase($1, $2, $3, $4, $5, $6, $7)
