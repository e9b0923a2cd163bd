"""The facts that receipts and dispatches carry: what each one means, and which receipts can be asked for by them."""
