"""The Loa runtime contract over the bus: its names, its exit codes, its types."""
