"""The configuration file as a flat list of dotted keys, each with its line."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from lifebus_contract import FailureClass, LifebusError
from lifebus_transports.ownership import check_parents, foreign_file

_MAX_BYTES: Final = 1_048_576
_TABLE: Final = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_.\-\"' ]+?)\s*\]")
_KEY: Final = re.compile(r"^\s*([A-Za-z0-9_.\-\"']+)\s*=")


class ConfigurationError(LifebusError):
    """The settings ask for something that cannot be; `problems` holds one sentence each (exit code 78)."""

    default_failure = FailureClass.OPERATOR_REQUIRED

    def __init__(self, problems: list[str], *, field: str | None = None) -> None:
        super().__init__("\n".join(problems), code="configuration", field=field)
        self.problems = tuple(problems)


class FileValue(Struct, frozen=True, kw_only=True):
    """One value of the file: its dotted key, and its line where that could be found.

    Of a list of tables, `lines` has the lines of each table's keys, and that of its head under the empty name.
    """

    key: str
    value: Any
    line: int | None
    lines: tuple[dict[str, int], ...] = ()


def read_file(path: Path) -> list[FileValue]:
    """Return what the file says, in its order; tables inside of tables stay values.

    It names commands that are run, so it is ours or root's, and nobody else may write to it or exchange it.

    Raises:
        ConfigurationError: unreadable, another user's, too large, or not TOML; the text names the line.
    """
    import tomllib  # noqa: PLC0415  most brokers have no file

    raw = _contents(path)
    if len(raw) > _MAX_BYTES:
        raise ConfigurationError([f"{path}: larger than {_MAX_BYTES} bytes"])
    try:
        text = raw.decode()
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # tomllib names the line and column
        raise ConfigurationError([f"{path}: not valid TOML: {fault}"]) from None
    # tomllib keeps no positions; errors that name a line are worth a second, plain scan.
    lines, tables = _lines_of(text)
    return [
        FileValue(key=key, value=value, line=lines.get(key), lines=tuple(tables.get(key, ())))
        for key, value in _flat(data)
    ]


def _contents(path: Path) -> bytes:
    """Return what a file holds, once it is proved to be of our own or of root's."""
    if str(path) == os.devnull:  # a usual way to say that there is none
        return b""
    try:
        check_parents(path)
        # To open a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except LifebusError as fault:
        raise ConfigurationError([f"{path}: not read: {fault.detail}"]) from fault
    except OSError as fault:
        raise ConfigurationError([f"{path}: cannot be read: {fault.strerror}"]) from fault
    with os.fdopen(descriptor, "rb") as stream:
        if wrong := foreign_file(path, os.fstat(descriptor), of_root=True):
            raise ConfigurationError([f"{path}: not read: {wrong}"])
        try:
            # One byte more than allowed, to tell a file at the limit from one beyond it.
            return stream.read(_MAX_BYTES + 1)
        except OSError as fault:
            raise ConfigurationError([f"{path}: cannot be read: {fault.strerror}"]) from fault


def _flat(data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield top-level values, lists of tables among them, and the values of top-level tables under dotted keys."""
    for key, value in data.items():
        # One level: sections hold values, and deeper tables are a value's own.
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in cast("dict[str, Any]", value).items())
        else:
            yield key, value


def _lines_of(text: str) -> tuple[dict[str, int], dict[str, list[dict[str, int]]]]:
    """Return the line of each dotted key, and those of the tables of lists, as far as a plain scan finds them."""
    lines: dict[str, int] = {}
    tables: dict[str, list[dict[str, int]]] = {}
    current: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.match(line):
            name = _plain(header[1])
            if line.lstrip().startswith("[["):
                current = {"": number}
                tables.setdefault(name, []).append(current)
            # Below `[[clients]]`, `[clients.x]` belongs to the newest client.
            elif name.partition(".")[0] in tables:  # a table inside of the newest one
                current.setdefault(name.partition(".")[2], number)
            table = name + "."
            lines.setdefault(name, number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _plain(key[1]), number)
            if table[:-1] in tables:
                current.setdefault(_plain(key[1]), number)
    return lines, tables


def _plain(key: str) -> str:
    return re.sub(r"[\"' ]", "", key)
