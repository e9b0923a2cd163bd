"""Pure reducers over recorded rows: what the broker knows beside the ledger (docs/ledger.md, "State")."""
