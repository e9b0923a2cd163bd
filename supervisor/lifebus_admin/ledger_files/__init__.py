"""The care of a ledger file: look at it, check it, copy it, put another one in its place (docs/ledger.md)."""
