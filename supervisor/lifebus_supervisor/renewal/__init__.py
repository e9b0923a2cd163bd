"""Renewal of a session across a reset: a client's opaque token kept, and handed over at the next start."""
