"""One output of a command: a pipe, and the file that it goes to."""

import os
from typing import Final

from lifebus_transports.shims.bounded_file import BoundedFile

_CHUNK: Final = 65_536
_TAIL: Final = 8_193
"""One byte more than a receipt's text is made of, by which it is seen to be cut."""


class Output:
    """One output of the command: our end of its pipe, the file, and the last bytes of it."""

    def __init__(self, path: str, keep: int) -> None:
        self.file = BoundedFile(path, keep)
        self.tail = bytearray()
        try:
            self.pipe, self.theirs = os.pipe()
        except OSError:
            self.file.finish()
            raise
        os.set_blocking(self.pipe, False)

    def read(self) -> bool:
        """Read once; False when there is nothing more for now, or at all (then the pipe is closed)."""
        try:
            data = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.file.write(data)
        self.tail += data
        if len(self.tail) > _TAIL:
            del self.tail[:-_TAIL]
        return True

    def close(self) -> None:
        """Close our end of the pipe."""
        os.close(self.pipe)
        self.pipe = -1
