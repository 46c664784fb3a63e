-- What never changes about jobs: their first events, without the payloads.
-- $1 jobs
-- Differs: SQLite reads event by event; a round trip costs more.
SELECT seq, job_id, version, at, type, actor, attempt, generation, lease, key, detail, NULL::boolean, NULL::bytea
FROM windlass.job_events WHERE job_id = ANY ($1) AND version = 1
