"""Saving and loading: snapshots, pins, cold boot (session-lifecycle, 1-3, 5)."""

__all__: list[str] = []
