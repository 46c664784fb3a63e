-- The settings of the store.
SELECT state FROM settings
