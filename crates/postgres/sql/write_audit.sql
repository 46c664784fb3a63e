-- An action on record.
-- $1 at  $2 actor  $3 action  $4 target  $5 detail
INSERT INTO windlass.audit (at, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5)
