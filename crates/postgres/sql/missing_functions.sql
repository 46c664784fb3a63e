-- Which of these functions are not there.
-- $1 names
SELECT name FROM unnest($1::text[]) name WHERE to_regproc(name) IS NULL
