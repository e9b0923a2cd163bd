"""Real harness programs, played through scenarios on loopback: what they did, and what the ledger says of it."""
