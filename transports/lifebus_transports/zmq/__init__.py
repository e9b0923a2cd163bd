"""The ZeroMQ sockets: requests, receipts, workers, and who may connect."""
