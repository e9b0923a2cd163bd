"""The SQLite ledger: one writer thread, readers beside it, and the file that both share."""
