"""Supervision: what is known of each live session, what follows from it, and the ticks that find out."""
