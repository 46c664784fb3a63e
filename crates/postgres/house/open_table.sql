DROP TRIGGER IF EXISTS closed ON windlass.{table}
