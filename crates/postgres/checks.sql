-- What a row of jobs must satisfy. In force in debug builds, and so in every test: the engine never writes another, and a
-- hand can only end a job, by the guard's function. The server would read these conditions anew for every statement.
ALTER TABLE windlass.jobs
  DROP CONSTRAINT IF EXISTS numbers_within_their_limits,
  DROP CONSTRAINT IF EXISTS leased_exactly_while_running,
  DROP CONSTRAINT IF EXISTS waits_for_something_exactly_while_waiting,
  DROP CONSTRAINT IF EXISTS due_while_it_can_be_taken,
  DROP CONSTRAINT IF EXISTS finished_exactly_when_terminal,
  DROP CONSTRAINT IF EXISTS dead_has_a_reason;
ALTER TABLE windlass.jobs
  ADD CONSTRAINT numbers_within_their_limits CHECK (priority BETWEEN -5 AND 5 AND attempt >= 0
    AND retries BETWEEN 0 AND max_retries AND crashes >= 0 AND version > 0 AND generation >= 0
    AND progress BETWEEN 0 AND 100 AND signals >= 0 AND children >= 0 AND timeout_ms > 0 AND lease_ms > 0
    AND grace_ms >= 0) NOT VALID,
  ADD CONSTRAINT leased_exactly_while_running CHECK ((status = 'running') = (lease_hash IS NOT NULL)
    AND (lease_hash IS NULL) = (lease_expires_at IS NULL)) NOT VALID,
  ADD CONSTRAINT waits_for_something_exactly_while_waiting CHECK
    ((status = 'waiting') = (waiting_for IS NOT NULL)) NOT VALID,
  ADD CONSTRAINT due_while_it_can_be_taken CHECK (due_at IS NOT NULL
    OR status IN ('assigned', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled')) NOT VALID,
  ADD CONSTRAINT finished_exactly_when_terminal CHECK
    ((finished_at IS NOT NULL) = (status IN ('completed', 'failed', 'timed_out', 'cancelled'))
     AND (finished_at IS NULL OR due_at IS NULL)) NOT VALID,
  ADD CONSTRAINT dead_has_a_reason CHECK (status NOT IN ('failed', 'timed_out')
    OR (error_code IS NOT NULL AND error_version IS NOT NULL)) NOT VALID;
