-- Removes a subscription.
-- ?1 name
DELETE FROM subscriptions WHERE name = ?1
