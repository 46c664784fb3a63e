-- Nobody may call a function of this schema unless a grant says so.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA windlass FROM PUBLIC
