-- Whether this role may write tables itself; the app role may not, and calls functions.
SELECT has_table_privilege('windlass.jobs', 'UPDATE')
