"""Runs that are executed outside of the broker, which keeps what happens."""
