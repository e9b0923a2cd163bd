"""How a run comes to stand by its records, what follows from it, and what goes in and out of it; pure."""
