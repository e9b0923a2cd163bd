"""What app-servers tell of sessions, as receipts: one for each fact, whoever else tells of it."""
