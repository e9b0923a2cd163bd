"""Room for the write-ahead log that is on the disk before it is needed.

To sync a file that has grown, a file system commits its journal, and with it what every other program has written: that
takes a multiple of the time, and mostly while others write.  A log that is long enough is written over.
"""

import os
from contextlib import suppress


def make_room(log: str, size: int) -> bool:
    """Fill up a write-ahead log with zeros and sync it; return False where it is that long, or the disk too full.

    SQLite ends a log at the first frame that is none.  Nobody else may write it meanwhile.
    """
    with suppress(OSError):
        file = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return _fill_up(file, size)
        finally:
            os.close(file)
    return False


def _fill_up(file: int, size: int) -> bool:
    was = os.fstat(file).st_size
    if was >= size:
        return False
    try:
        # Written, and not only reserved: what is reserved goes through the journal when it is first written to.
        if os.pwrite(file, bytes(size - was), was) == size - was:
            os.fsync(file)
            return True
    except OSError:
        os.ftruncate(file, was)
        raise
    os.ftruncate(file, was)
    return False
