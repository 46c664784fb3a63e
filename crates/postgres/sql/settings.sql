-- The settings of the store.
SELECT state FROM windlass.settings
