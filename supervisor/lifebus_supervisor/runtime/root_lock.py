"""One run at a time in a project: a lock on its root, kept outside of it.

The lock is a file of the state directory, so that nothing is written into the project; it is held by whoever executes
the run, and let go by the system when that process ends, however it ends.
"""

import contextlib
import fcntl
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from lifebus_contract import StateConflict

DIRECTORY: Final = "roots"
"""Where the locks are in the state directory."""

_RUN: Final = re.compile(r"run `([A-Za-z0-9_.-]{1,128})`")
"""How a holder says which run it runs."""

_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_HOLDER: Final = 512


class RootLock:
    """The lock of a root; held until it is closed or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, state_dir: Path, root: str, holder: str) -> Self:
        """Hold the lock of a root; `holder` says who does, for those who come second.  Blocks for as long as files do.

        Raises:
            StateConflict: ``root_taken``, with what the holder said of itself.
            OSError: the file cannot be made or opened.
        """
        path = lock_path(state_dir, root)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, _OPEN, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(descriptor, _LONGEST_HOLDER, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise root_taken(root, said) from None
        except OSError:
            os.close(descriptor)
            raise
        # It is held already: on a full disk those who come second do not learn by whom.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode()[:_LONGEST_HOLDER], 0)
        return cls(descriptor)

    def close(self) -> None:
        """Let go; the file stays, because removing it would let two hold two different ones."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def root_taken(root: str, holder: str) -> StateConflict:
    """Return the refusal of a root that somebody holds; `holder` is what he says of himself, a run: ``run `ID` …``."""
    found = _RUN.match(holder)
    next_steps = f"; {ways_on(found[1])}" if found else ""
    return StateConflict(f"{root}: {holder or 'another process'} holds it{next_steps}", code="root_taken")


def ways_on(run_id: str) -> str:
    """Return what whoever finds a run in his way can do with it."""
    return f"`lifebus flow resume {run_id}` goes on with it or follows it, `lifebus flow abort {run_id}` ends it"


def is_held(state_dir: Path, root: str) -> bool:
    """Whether some process holds the lock of a root; this one counts as well."""
    try:
        descriptor = os.open(lock_path(state_dir, root), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_path(state_dir: Path, root: str) -> Path:
    """Return the file that is the lock of a root; two names of one directory have one."""
    real = os.path.realpath(root)
    return state_dir / DIRECTORY / f"{sha256(os.fsencode(real)).hexdigest()[:40]}.lock"
