"""Pure reducers over recorded rows: what the broker knows beside the ledger (design 4.5)."""
