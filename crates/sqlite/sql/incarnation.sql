-- How often the store was restored.
SELECT incarnation FROM windlass_store
