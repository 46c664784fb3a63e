-- Makes a function of a statement, so that the server keeps its plan. A plan made while a table is empty stands when it
-- has grown, and one made for few items serves many, so the plan follows from the text alone: from row to row by index.
CREATE OR REPLACE FUNCTION windlass.kept(takes) RETURNS gives LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan
AS $kept$
BEGIN
  RETURN QUERY
statement;
END $kept$
