-- What a statement answers whose plan the server keeps: its function stands in the place of this one.
SELECT * FROM windlass.kept()
