"""What is run, and the environment it gets: an argument list and an allow-list, never a shell.  Pure."""

from collections.abc import Mapping, Sequence
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
    return passed_on(environ, (*PASSED_ON, *spec.passing)) | dict(spec.setting)


def passed_on(environ: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables that are passed on: those that a pattern names; a star at its end stands for any ending."""
    # An allow-list: secrets of the broker's environment must not reach a client's command by default.
    names = frozenset(one for one in patterns if not one.endswith("*"))
    beginnings = tuple(one[:-1] for one in patterns if one.endswith("*"))
    return {name: value for name, value in environ.items() if name in names or name.startswith(beginnings)}
