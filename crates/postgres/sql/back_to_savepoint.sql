-- Undoes what was done since.
ROLLBACK TO SAVEPOINT before
