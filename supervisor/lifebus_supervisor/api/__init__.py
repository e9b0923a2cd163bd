"""The verbs of the broker, free of any transport."""
