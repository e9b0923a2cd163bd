"""Benchmarks: lifebus beside Redis Streams and NATS JetStream doing the same work.  Start with `make bench`."""
