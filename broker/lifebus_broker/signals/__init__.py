"""Signals of app-servers: the log that keeps them, and its quota."""
