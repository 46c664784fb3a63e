UPDATE windlass.store SET closed = {closed}
