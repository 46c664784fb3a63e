-- Nothing is being purged any more.
DELETE FROM purging
