"""Hook calls and the spool on their way into the bus."""
