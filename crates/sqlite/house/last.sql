-- The highest key of a table.
SELECT {key} FROM {table} ORDER BY {backwards} LIMIT 1
