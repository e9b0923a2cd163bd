"""Compactions: views derived from the log, which make questions fast and may be deleted at any time."""
