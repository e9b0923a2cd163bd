"""Saving and loading: snapshots, pins, cold boot (session-lifecycle, 1-3, 5).

Above: the supervisor, the command line.  Below: the keeper, compactions, the fold, the log.
"""

__all__: list[str] = []
