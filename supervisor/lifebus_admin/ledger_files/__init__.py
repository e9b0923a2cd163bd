"""Administer ledger files: read what they hold, check, copy and replace them (docs/ledger.md)."""
