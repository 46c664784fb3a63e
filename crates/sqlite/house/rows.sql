-- Rows of a table behind a key, in the order of keys.
SELECT {columns} FROM {table} WHERE {behind} ORDER BY {key} LIMIT ?
