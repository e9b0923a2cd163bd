"""Checkpoints: documents of a client, each kept whole, found by id and by name, with its digest on the bus."""
