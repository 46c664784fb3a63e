-- Locks lanes until the transaction ends: who looks at what waits there before it adds to it does so alone.
-- $1 queues  $2 lanes
SELECT pg_advisory_xact_lock(hashtextextended(a.queue, a.lane)) FROM unnest($1::text[], $2::bigint[]) a (queue, lane)
