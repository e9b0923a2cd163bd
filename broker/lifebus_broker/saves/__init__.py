"""Saving and loading: snapshots, pins, cold boot (session-lifecycle, 1-3, 5).  Pure: values in, values out.

Above: the supervisor, the command line.  Below: the fold, the log, canonical bytes.
"""

__all__: list[str] = []
