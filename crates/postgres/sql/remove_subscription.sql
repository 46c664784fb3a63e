-- Removes a subscription.
-- $1 name
DELETE FROM windlass.subscriptions WHERE name = $1
