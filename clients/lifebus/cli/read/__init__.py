"""Commands that read receipts, sessions and signals."""
