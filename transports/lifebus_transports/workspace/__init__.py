"""Files beneath a root: whatever a path says, nothing outside it is read, written or named (docs/files.md)."""
