"""Actions that extensions and workers ask for: who may have what done to which session, each once under its key."""
