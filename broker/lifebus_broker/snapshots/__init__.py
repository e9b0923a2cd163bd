"""Saving and loading: snapshots, pins, cold boot (docs/ledger.md, "Snapshots")."""

__all__: list[str] = []
