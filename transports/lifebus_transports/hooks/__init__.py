"""The servers of plain Unix sockets, for hooks and for lines, and the spool."""
