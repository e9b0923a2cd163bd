"""Renewal of a session across a reset: a client's opaque token is stored, and handed over at the next start."""
