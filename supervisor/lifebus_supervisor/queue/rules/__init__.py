"""The rules of the queue: what goes first, what is the same, what follows, what is kept; pure."""
