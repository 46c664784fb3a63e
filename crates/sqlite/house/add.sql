-- Adds a row.
INSERT INTO {table} ({columns}) VALUES ({values})
