"""Ledger files as a whole: copied, exported, imported, and put in the place of another."""
