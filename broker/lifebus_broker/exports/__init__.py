"""Ledgers as text: one canonical JSON document a line, from which the whole ledger can be made again."""
