"""Runs of flows: what is decided of them, what is recorded, and the processes of their steps (docs/flows.md)."""
