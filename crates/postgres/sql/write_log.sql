-- Lines of a job's log, numbered from $2 on.
-- $1 job  $2 n  $3 at  $4 attempt  $5 lines
-- Differs: all lines in one statement.
INSERT INTO windlass.job_logs (job_id, n, at, attempt, line)
SELECT $1, $2 + l.place - 1, $3, $4, l.line FROM unnest($5::text[]) WITH ORDINALITY l (line, place)
