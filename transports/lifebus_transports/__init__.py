"""Servers and child processes: bytes to messages and back.  Knows ZeroMQ, sockets and frames; never the broker."""
