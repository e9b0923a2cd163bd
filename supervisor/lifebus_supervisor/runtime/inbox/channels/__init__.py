"""The ways by which questions reach people, one module a kind."""
