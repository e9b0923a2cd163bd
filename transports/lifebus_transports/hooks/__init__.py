"""The hook server and the spool."""
