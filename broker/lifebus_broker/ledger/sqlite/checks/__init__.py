"""Checks of a ledger file against itself."""
