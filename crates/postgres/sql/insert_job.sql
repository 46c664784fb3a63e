-- A new row, beside its first event. Values in the order of the table; nothing when the id is taken.
-- $1..$43 every column
INSERT INTO windlass.jobs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
  $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43)
ON CONFLICT (id) DO NOTHING RETURNING id
