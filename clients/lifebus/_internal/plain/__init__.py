"""What the library shares with commands that load no library."""
