"""Compactions: views derived from the log, which make questions fast and may be deleted at any time.

Above: the keeper, saves, the command line.  Below: the fold, the log, canonical bytes.
"""
