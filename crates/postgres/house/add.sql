-- Adds rows that come column by column.
INSERT INTO windlass.{table} ({columns}{following}) SELECT {made}{followed} FROM unnest({arrays}) u ({columns})
