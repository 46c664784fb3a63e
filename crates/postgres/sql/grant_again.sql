-- Gives roles that could call functions of an earlier version those of this one.
DO $grant$
DECLARE
  app regrole;
BEGIN
  FOR app IN
    SELECT DISTINCT a.grantee::regrole FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
    WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.jobs'::regclass)
      AND p.proname LIKE 'app\_%' AND a.grantee NOT IN (0, p.proowner)
  LOOP
    PERFORM windlass.grant_app(app);
  END LOOP;
END $grant$
