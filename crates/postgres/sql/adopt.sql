-- Begins a new incarnation where the store has come to another server or timeline, or if forced.
-- $1 forced
-- Differs: SQLite is asked only by force.
SELECT windlass.adopt($1)
