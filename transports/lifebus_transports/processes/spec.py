"""What is run, and the environment it gets: an argument list and an allow-list, never a shell.  Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*")
"""Variables that every command gets; a star stands for any ending."""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A command: its arguments, the program first; further variables to pass on (a star for any ending) and to set.

    `cwd` is its working directory, the caller's own without one.
    """

    argv: tuple[str, ...]
    passing: tuple[str, ...] = ()
    setting: Mapping[str, str] = {}
    cwd: str | None = None


def environment_of(spec: CommandSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a command: what is allowed of `environ`, then what is set."""
    # An allow-list: secrets of the broker's environment must not reach a client's command by default.
    allowed = (*PASSED_ON, *spec.passing)
    return {name: value for name, value in environ.items() if _is_allowed(name, allowed)} | dict(spec.setting)


def _is_allowed(name: str, allowed: Iterable[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allowed)
