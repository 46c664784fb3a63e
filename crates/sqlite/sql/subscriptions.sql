-- Every subscription, by name.
SELECT name, state, credential FROM subscriptions ORDER BY name
