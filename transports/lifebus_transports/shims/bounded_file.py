"""A file that keeps the beginning and the end of a stream, however long it is, and stays readable while it grows."""

import fcntl
import os
from typing import Final

_CHUNK: Final = 1_048_576
_MARK: Final = b"\n[%016d bytes left out]\n"
_MARK_SIZE: Final = len(_MARK % 0)


class BoundedFile:
    """Keeps the first and the last `keep` bytes, with a line between them that says how many are left out.

    Until `finish` up to twice as much of the end is there, so that each byte is copied at most once more.  `total`
    counts what came.  Where the file cannot be written, `fault` says why, and the rest is only counted.
    """

    def __init__(self, path: str, keep: int) -> None:
        """Open the file and empty it; it is locked until `finish`, or the end of this process.

        Raises:
            OSError: it cannot be opened, is a symbolic link, or another process has it locked.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Before it is emptied: whoever has the lock still writes there.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
        except OSError:
            os.close(self._descriptor)
            raise
        self.total = 0
        self.fault = ""
        self._keep = keep
        self._size = 0
        self._end_at = keep + _MARK_SIZE
        """Where the end begins, once something is left out."""

    def write(self, data: bytes) -> None:
        """Take in what came."""
        self.total += len(data)
        try:
            left = memoryview(data)
            while left and not self.fault:
                # At three times `keep` the copy of the last part and its new place do not overlap.
                room = 3 * self._keep + _MARK_SIZE - self._size
                written = os.pwrite(self._descriptor, left[:room], self._size)
                self._size += written
                left = left[written:]
                if self._size == 3 * self._keep + _MARK_SIZE:
                    self._leave_out(self.total - len(left))
        except OSError as fault:
            self.fault = fault.strerror or type(fault).__name__

    def finish(self) -> None:
        """Leave out what is too much, and close the file."""
        try:
            if not self.fault and self._size > self._end_at + self._keep:
                self._leave_out(self.total)
        except OSError as fault:
            self.fault = fault.strerror or type(fault).__name__
        finally:
            os.close(self._descriptor)

    def _leave_out(self, total: int) -> None:
        source, target, end = self._size - self._keep, self._end_at, self._size
        while source < end:  # upwards, and to a place before it: it may overlap
            piece = os.pread(self._descriptor, min(_CHUNK, end - source), source)
            os.pwrite(self._descriptor, piece, target)
            source, target = source + len(piece), target + len(piece)
        os.pwrite(self._descriptor, _MARK % (total - 2 * self._keep), self._keep)
        os.ftruncate(self._descriptor, target)
        self._size = target
