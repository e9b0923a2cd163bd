"""Settings: their types, where they are read from, and the adapters they name."""
