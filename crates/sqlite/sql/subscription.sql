-- One subscription with what it signs in with.
-- ?1 name
SELECT name, state, credential FROM subscriptions WHERE name = ?1
