"""The queue: jobs that are durable, one running in each project (docs/queue.md)."""
