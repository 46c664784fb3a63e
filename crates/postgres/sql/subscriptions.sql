-- Every subscription, by name.
SELECT name, state, credential FROM windlass.subscriptions ORDER BY name
