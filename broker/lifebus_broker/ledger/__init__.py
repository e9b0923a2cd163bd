"""Where receipts are recorded: in memory for a moment, or in SQLite for good (docs/ledger.md, "Durability")."""
