-- Begins a new incarnation.
UPDATE windlass_store SET incarnation = incarnation + 1
