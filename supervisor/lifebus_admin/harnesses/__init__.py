"""The harnesses on this machine: what is installed for them, in which version, and whether it works."""
