-- Makes a function of a statement, so that the server keeps its plan. A plan made while a table is empty stands when it
-- has grown, so sequential scans are left out.
CREATE OR REPLACE FUNCTION windlass.kept(takes) RETURNS TABLE (gives) LANGUAGE plpgsql SET enable_seqscan = off AS $kept$
BEGIN
  RETURN QUERY
statement;
END $kept$
