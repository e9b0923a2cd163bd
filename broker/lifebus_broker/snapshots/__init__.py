"""Snapshots of the state: taking, keeping and booting them; what follows the log; compactions (docs/ledger.md)."""
