-- Marks how far the feed's numbers have come.
SELECT windlass.mark()
