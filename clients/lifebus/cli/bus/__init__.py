"""Commands that talk to a running broker, or are one."""
