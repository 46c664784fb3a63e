-- Problems, last seen first, in a state and of a kind or all.
-- $1 state  $2 kind  $3 last seen before  $4 or then with a smaller fingerprint  $5 limit
SELECT body FROM windlass.problems
WHERE ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR kind = $2) AND (last_seen_at, fingerprint) < ($3, $4)
ORDER BY last_seen_at DESC, fingerprint DESC LIMIT $5
