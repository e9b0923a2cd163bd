"""What runs are on the bus: their adapter, their receipts, and the client that says how a try failed."""
