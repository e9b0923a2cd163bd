"""What app-servers report of sessions, as receipts: one for each fact, whoever else reports it."""
