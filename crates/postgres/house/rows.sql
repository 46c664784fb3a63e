-- Rows of a table behind a key, in the order of keys.
SELECT {columns} FROM windlass.{table} WHERE {behind} ORDER BY {key} LIMIT {limit}
