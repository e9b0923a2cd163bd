"""A log file of bounded size in the place of stderr, so that whatever the process writes there is kept, and no more."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 5 * 1_048_576
"""The size at which a file is put aside."""

KEPT: Final = 3
"""How many older files stay, as NAME.1 to NAME.3."""

_STREAMS: Final = (1, 2)
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class LogFile:
    """Stands for a text stream; stdout and stderr of the process lead into the same file from the start.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> None:
        self.path = path
        self._most_bytes, self._kept = most_bytes, kept
        # Threads log too, and two of them must not put a file aside twice.
        self._lock = threading.Lock()
        self._lead_streams(open_log(path))

    def write(self, text: str) -> int:
        """Write to stderr, which is the file, and begin a new one where it has become too large.

        Raises:
            OSError: the disk is full.
        """
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        with self._lock:
            while rest:
                rest = rest[os.write(2, rest) :]
            self._rotate()
        return len(text)

    def flush(self) -> None:
        """Do nothing: every line is written at once."""

    def isatty(self) -> bool:
        """Whether it is a terminal: never."""
        return False

    def _rotate(self) -> None:
        """Put the file aside where it is too large, and begin another one; also where somebody has deleted it."""
        found = os.fstat(2)
        if found.st_size < self._most_bytes and found.st_nlink:
            return
        # A file that cannot be renamed goes on growing: to lose lines, or the broker, would be worse.
        with suppress(OSError):
            for older, newer in self._moves() if found.st_nlink else ():
                if newer.exists():
                    newer.replace(older)
            self._lead_streams(open_log(self.path))

    def _moves(self) -> Iterator[tuple[Path, Path]]:
        """Yield the new and the old name of each file, the oldest first."""
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{number + 1}") for number in range(self._kept))]
        return zip(reversed(names[1:]), reversed(names[:-1]), strict=True)

    @staticmethod
    def _lead_streams(descriptor: int) -> None:
        for stream in _STREAMS:
            os.dup2(descriptor, stream)
        if descriptor not in _STREAMS:
            os.close(descriptor)


def open_log(path: Path) -> int:
    """Return a descriptor that appends to a log file, which is made (0600) where it is missing.

    Raises:
        OSError: it cannot be opened, or is no file.
    """
    # Not to wait for the reader of a pipe; writes block as usual.
    descriptor = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    return descriptor


def end_of_log(path: Path, *, since: int = 0, lines: int = 20) -> list[str]:
    """Return the last lines of a log file from a byte on; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # A file that became shorter was begun anew since then.
            start = since if since <= size else 0
            file.seek(max(start, size - lines * 4_096))
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return []
    return text.splitlines()[-lines:]
