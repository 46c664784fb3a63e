-- Runs statements while nobody is in the middle of writing.
BEGIN;
SET LOCAL lock_timeout = '{patience}';
LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE;
{statements};
COMMIT
