-- The highest key of a table.
SELECT {columns} FROM windlass.{table} ORDER BY {backwards} LIMIT 1
