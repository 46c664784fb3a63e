-- Removes lines that a part of the archive holds and leaves where they are; answers those that are there now.
-- $1 jobs  $2 firsts  $3 lasts  $4 part  $5 now
-- Differs: all ranges in one statement, with their references.
-- Mirrors core's LogRange::decide. The caller holds the jobs' rows, under which lines are written.
WITH asked AS (SELECT job_id, first_n, last_n FROM unnest($1::uuid[], $2::int8[], $3::int8[]) a (job_id, first_n, last_n)),
whole AS (SELECT a.* FROM asked a WHERE a.last_n - a.first_n + 1 = (
    SELECT count(*) FROM windlass.job_logs l WHERE l.job_id = a.job_id AND l.n BETWEEN a.first_n AND a.last_n)),
gone AS (DELETE FROM windlass.job_logs l USING whole w WHERE l.job_id = w.job_id AND l.n BETWEEN w.first_n AND w.last_n),
left_behind AS (INSERT INTO windlass.job_log_parts (job_id, first_n, last_n, part, moved_at)
  SELECT w.job_id, w.first_n, w.last_n, $4, $5 FROM whole w ON CONFLICT DO NOTHING)
SELECT job_id, first_n FROM whole
UNION SELECT p.job_id, p.first_n FROM asked a
  JOIN windlass.job_log_parts p ON p.job_id = a.job_id AND p.first_n = a.first_n AND p.last_n = a.last_n AND p.part = $4
