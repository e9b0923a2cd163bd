"""The flags of `ConnectionOptions` as plain words: which broker, and how long to wait for it."""

import os
import stat

from lifebus.cli.wording.durations import duration_seconds

TYPE_CHECKING = False  # `typing` would be a third of a command that uses this
if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTION_VALUES = ("--runtime-dir", "--timeout")
"""The flags that have a value."""

REQUESTS = "requests.ipc"
"""The socket without which no broker is there (`lifebus._internal.connection`)."""

_OTHERS_WRITE = 0o022
_OTHERS = 0o077
_LONGEST_S = 86_400.0
"""The longest wait here; a socket takes no year."""


def connection_of(found: "Mapping[str, str]", environ: "Mapping[str, str]") -> tuple[str, float] | None:
    """Return the directory of the broker and the seconds of the timeout; None where that is no time."""
    from lifebus_transports.own_directories import runtime_directory  # noqa: PLC0415  the rule of all commands

    seconds = duration_seconds(found.get("--timeout", "5s"))
    if seconds is None:
        return None
    return found.get("--runtime-dir") or runtime_directory(environ), min(seconds, _LONGEST_S)


def is_certainly_absent(directory: str) -> bool:
    """Whether no broker is there, and nothing else is to be said: nobody else could have exchanged what is above.

    Links, folders that others may write to, and paths that are no plain ones are left to the usual way, whose rules
    these are (`lifebus_transports.ownership`).
    """
    names = directory.split("/")
    if names.pop(0) or not directory.isprintable() or "$" in directory or any(one in {"", ".", ".."} for one in names):
        return False
    here = "/"
    try:
        for name in names:
            found = os.lstat(here)
            # In a sticky directory only an owner may take names away.
            if not _is_directory(found) or (found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX):
                return False
            here = f"{here.rstrip('/')}/{name}"
        found = os.lstat(here)
        if not _is_directory(found) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
            return False
        os.lstat(f"{here}/{REQUESTS}")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _is_directory(found: "os.stat_result") -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid in {0, os.geteuid()}
