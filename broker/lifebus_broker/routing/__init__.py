"""What becomes of an emission: routing, negotiation, placement, dispatch, receipts and fan-out."""
