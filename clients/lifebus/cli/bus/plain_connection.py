"""The flags of `ConnectionOptions` as plain words: which broker, and how long to wait for it."""

from lifebus.cli.bus.own_directories import runtime_directory
from lifebus.cli.wording.durations import duration_seconds

TYPE_CHECKING = False  # `typing` would be a third of a command that uses this
if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTION_VALUES = ("--runtime-dir", "--timeout")
"""The flags that have a value."""

_LONGEST_S = 86_400.0
"""The longest wait here; a socket takes no year."""


def connection_of(found: "Mapping[str, str]", environ: "Mapping[str, str]") -> tuple[str, float] | None:
    """Return the directory of the broker and the seconds of the timeout; None where that is no time."""
    seconds = duration_seconds(found.get("--timeout", "5s"))
    if seconds is None:
        return None
    return found.get("--runtime-dir") or runtime_directory(environ), min(seconds, _LONGEST_S)
