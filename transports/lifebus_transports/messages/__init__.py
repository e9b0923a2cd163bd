"""The bodies of every verb, one module a family."""
