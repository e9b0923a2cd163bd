"""What receipts promised and what turned out false: corrected by a receipt more (docs/contract.md 5.7)."""
