-- A place to go back to.
SAVEPOINT before
