"""Streams: what clients follow by number, from where they were, whatever carries it to them."""
