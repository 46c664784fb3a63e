-- Makes a function of a statement for the app role, which acts for the owner. What is owed is noted last: a caller may
-- have it checked at once.
CREATE OR REPLACE FUNCTION windlass.app(takes) RETURNS gives LANGUAGE plpgsql SECURITY DEFINER
SET search_path = windlass, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan
AS $app$
BEGIN
  statement;
  PERFORM owed;
END $app$
