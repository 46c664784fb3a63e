-- Queues with rules, and these.
SELECT name, flow FROM windlass.queues WHERE flow IS NOT NULL
