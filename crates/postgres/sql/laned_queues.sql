-- Queues with rules.
SELECT name FROM windlass.queues WHERE flow IS NOT NULL
