"""Following receipts and signals: what is done at a gap, and the methods of a bus that begin it."""
