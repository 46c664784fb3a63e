-- Enqueues a job in the caller's own transaction and answers its id, or the id of the job that has its unique key.
-- Every parameter is text, so that nothing has to be prepared; times are microseconds since 1970, durations milliseconds.
-- $1 kind  $2 payload  $3 queue  $4 priority  $5 run_at  $6 delay  $7 max_retries  $8 timeout  $9 lease  $10 grace
-- $11 backoff  $12 agent_id  $13 metadata  $14 tags, a JSON array  $15 unique_key  $16 unique_scope  $17 unique_policy
-- $18 unique_ttl  $19 parent_id  $20 id  $21 notify
SELECT windlass.enqueue(
  kind => $1,
  payload => $2::json,
  queue => $3,
  priority => $4::int,
  run_at => timestamptz 'epoch' + $5::bigint * interval '1 microsecond',
  delay => $6::bigint * interval '1 millisecond',
  max_retries => $7::int,
  timeout => $8::bigint * interval '1 millisecond',
  lease => $9::bigint * interval '1 millisecond',
  grace => $10::bigint * interval '1 millisecond',
  backoff => $11::jsonb,
  agent_id => $12,
  metadata => $13::jsonb,
  tags => ARRAY(SELECT json_array_elements_text($14::json)),
  unique_key => $15,
  unique_scope => $16,
  unique_policy => $17,
  unique_ttl => $18::bigint * interval '1 millisecond',
  parent_id => $19::uuid,
  id => $20::uuid,
  notify => $21::boolean
)::text
