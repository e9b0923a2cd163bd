"""Who writes to a ledger file, and when: commits, and what is done beside them."""
