"""The broker: decides, orders, records and fans out.  Knows no sockets and no harness."""
