"""Actions that extensions and workers ask for: wire types."""
