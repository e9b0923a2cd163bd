"""SQLite's own system calls, one of which fails: what no VFS of ours sees, such as the shared memory beside the log.

SQLite keeps a table of the calls it makes; the entry under test is replaced by a function that fails at the Nth call.
The table is the process's, so there is only one of these at a time.
"""

import ctypes
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw

_INT, _POINTER, _LONG = ctypes.c_int, ctypes.c_void_p, ctypes.c_long
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "open": (_INT, ctypes.c_char_p, _INT, _INT),
    "fcntl": (_INT, _INT, _INT, _POINTER),
    "fstat": (_INT, _INT, _POINTER),
    "ftruncate": (_INT, _INT, _LONG),
    "mmap": (_POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _INT, _LONG),
    "pread64": (_LONG, _INT, _POINTER, ctypes.c_size_t, _LONG),
    "pwrite64": (_LONG, _INT, _POINTER, ctypes.c_size_t, _LONG),
    "unlink": (_INT, ctypes.c_char_p),
}
"""The calls that can fail: what they return, what they take."""

CALLS: Final = tuple(_SIGNATURES)


class FailingCall:
    """The `fail_at`th `name` fails with an error number, once or from then on."""

    def __init__(self, name: str, fail_at: int, error: int = errno.EIO, *, sticky: bool = False) -> None:
        self.failed = 0
        self._name, self._left, self._error, self._sticky = name, fail_at, error, sticky

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have SQLite make its calls through this one inside the block."""
        system = apsw.VFS(f"system-{id(self)}", base="")
        kind = ctypes.CFUNCTYPE(*_SIGNATURES[self._name], use_errno=True)
        pointer = system.xGetSystemCall(self._name)
        assert pointer is not None
        real, failure = kind(pointer), -1 if self._name != "mmap" else ctypes.c_void_p(-1).value

        def call(*values: Any) -> Any:
            self._left -= 1
            if self._left == 0 or (self._left < 0 and self._sticky):
                self.failed += 1
                ctypes.set_errno(self._error)
                return failure
            return real(*values)

        replaced = kind(call)
        try:
            system.xSetSystemCall(self._name, ctypes.cast(replaced, _POINTER).value or 0)
            yield
        finally:
            system.xSetSystemCall(self._name, pointer)
            system.unregister()
