-- The newest migration on record.
SELECT max(id) FROM windlass_migrations
