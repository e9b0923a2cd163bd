"""Pure reducers over recorded receipts: what the broker knows beside the ledger (docs/ledger.md, "State")."""
