"""What an inspection of the installed hooks said, kept for `lifebus status` while nothing that it read has changed.

The inspection loads every adapter and the installer.  Its result stands in the state directory beside all that it
depends on: each file and directory that it read or looked for, as it was then, the variables of the environment that it
asked for, this program, and who asks.  Where any of them is different, or the file cannot be read, it is made anew.
"""

import os
import sys
from posixpath import realpath

from lifebus.cli.wording.plain_json import json_text, read_json

TYPE_CHECKING = False  # `lifebus status` needs this before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FILE = "hooks-inspected.json"
"""The name of the file in the state directory."""

_SETTLED_NS = 2_000_000_000
"""A file that changed later than this before it was read may change again within the same tick of its clock."""

_MAX_BYTES = 1_048_576


def known_checks() -> "list[dict[str, Any]]":
    """Return what the inspection of the hooks here says, as plain values of `CheckResult`.

    Raises:
        LifebusError: the settings are wrong.
    """
    from lifebus_transports.own_directories import state_directory  # noqa: PLC0415  the rule of all commands

    directory = state_directory(os.environ)
    if not directory.startswith("/"):  # the settings say where it is
        return inspect()[0]
    file = f"{directory}/{FILE}"
    kept = _kept(file)
    if kept is not None:
        return kept
    checks, depends_on = inspect()
    if depends_on is not None:
        _keep(file, json_text({"of": _asking(), **depends_on, "checks": checks}))
    return checks


def inspect() -> "tuple[list[dict[str, Any]], dict[str, Any] | None]":
    """Return what an inspection says, and on what it depends; None where that changed just now, or meanwhile."""
    import time  # noqa: PLC0415  only where nothing is kept

    import msgspec  # noqa: PLC0415

    from lifebus.cli.admin.harness_checks import check_hooks  # noqa: PLC0415
    from lifebus.cli.admin.host_place import copied_sources, place_to_inspect  # noqa: PLC0415
    from lifebus_admin.harnesses.inspected import NotedEnvironment, inspected_files, program_files  # noqa: PLC0415

    began_ns = time.time_ns()
    environ = NotedEnvironment(os.environ)
    place = place_to_inspect(environ)
    before = looks(inspected_files(place))
    checks: list[dict[str, Any]] = msgspec.to_builtins(list(check_hooks(place)))
    program = {path: look(path) for path in (*program_files(), *map(str, copied_sources()))}
    is_settled = all(_is_settled(found, began_ns) for found in (*before.values(), *program.values()))
    if not is_settled or looks(inspected_files(place)) != before:
        return checks, None
    return checks, {"environ": environ.asked, "files": before, "program": program}


def looks(paths: "Iterable[str]") -> "dict[str, list[Any]]":
    """Return for each path where its links lead, and how it looks there."""
    return {path: _look_behind(path) for path in paths}


def _look_behind(path: str) -> "list[Any]":
    real = realpath(path)
    return [real, *look(real)]


def look(path: str) -> "list[int]":
    """Return what changes whenever a file or directory does, its time of change last; or why it cannot be looked at."""
    try:
        found = os.stat(path)  # noqa: PTH116  `pathlib` takes longer to load than all of this
    except OSError as fault:
        return [fault.errno or 0]
    whose = (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid)
    return [*whose, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _is_settled(found: "list[Any]", began_ns: int) -> bool:
    # The numbers of errors are small; what is not there cannot have changed within a tick unseen.
    return isinstance(found[-1], int) and found[-1] < began_ns - _SETTLED_NS


def _asking() -> "list[Any]":
    """Return which program asks, and for whom."""
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    return [VERSION, sys.executable, sys.version, os.geteuid()]


def _kept(file: str) -> "list[dict[str, Any]] | None":
    """Return what is kept, if it is still true."""
    try:
        with open(file, "rb") as stream:  # noqa: PTH123  as above
            kept: Any = read_json(stream.read(_MAX_BYTES))
    except (OSError, ValueError):  # not kept yet, or half of it after a power cut
        return None
    kind = kept.__class__
    return kept["checks"] if kind is dict and _is_true(kept) else None


def _is_true(kept: "dict[str, Any]") -> bool:
    """Whether the same program asks for the same user, and finds all as it was."""
    if kept.get("of") != _asking():
        return False
    environ: dict[str, str | None] = kept["environ"]
    files: dict[str, list[Any]] = kept["files"]
    program: dict[str, list[int]] = kept["program"]
    return (
        all(os.environ.get(name) == value for name, value in environ.items())
        and looks(files) == files
        and all(look(path) == found for path, found in program.items())
    )


def _keep(file: str, text: str) -> None:
    """Keep a result; one that cannot be kept, in a directory that is not there, say, is made again."""
    unfinished = f"{file}.{os.getpid()}.new"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        # Names that are no UTF-8 are written as they are, and not read again.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as stream:
            stream.write(text)
        os.replace(unfinished, file)  # noqa: PTH105  as above
    except OSError:
        os.unlink(unfinished)  # noqa: PTH108  as above
