-- Enqueues jobs in the caller's own transaction, and answers each in their order: its id, or the id of the job that has its
-- unique key, whether it was there already, and whether that one has another payload.
-- Every parameter is text, so that nothing has to be prepared.
-- $1 jobs, as windlass.enqueue_many takes them  $2 actor  $3 notify
SELECT windlass.enqueue_many($1::json, $2, $3::boolean)::text
