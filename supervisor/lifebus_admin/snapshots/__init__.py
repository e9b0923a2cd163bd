"""Snapshots, boot, archives and compactions as commands work on them."""
