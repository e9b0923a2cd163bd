"""Real harness programs, run through scenarios on loopback: what they did, and what the ledger says of it."""
