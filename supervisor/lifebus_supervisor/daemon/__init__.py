"""The daemon: composition, logging, start and stop."""
