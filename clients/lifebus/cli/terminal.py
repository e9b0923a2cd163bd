"""Output: data on stdout, talk on stderr, colour only where it is wanted, nothing that could steer a terminal."""

import os
import sys

TYPE_CHECKING = False  # every command needs this module, and the quick ones need nothing that it names here
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final, TextIO

_COLORS: "Final" = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "dim": "2",
    "bold": "1",
}
_NARROWEST: "Final" = 8
"""Fewest columns that a column of a table is cut to."""

_USUAL_COLUMNS: "Final" = 80
"""Columns of a terminal that does not say how wide it is."""

_YEAR_1: "Final" = -62_135_596_800

_STATUS_COLORS: "Final" = {
    "observed": "",
    "delivered": "green",
    "skipped": "dim",
    "degraded": "yellow",
    "failed": "red",
}


def color_wanted(stream: "TextIO", environ: "Mapping[str, str]" = os.environ) -> bool:
    """Whether to colour: NO_COLOR says no, then FORCE_COLOR yes, then TERM=dumb no, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    # The order is that of no-color.org and force-color.org.
    if environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, color: str, stream: "TextIO | None" = None) -> str:
    """Return the text in a colour by name, or as it is where colour is not wanted."""
    if not color or not color_wanted(stream or sys.stdout):
        return text
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m"


def status_color(status: str) -> str:
    """Return the colour of a receipt status; empty for the plain ones."""
    return _STATUS_COLORS.get(status, "")


def clean(text: object) -> str:
    """Return text with every unprintable character escaped: what others wrote must not steer the terminal."""
    plain = str(text)
    # The common case, without a loop over every character.
    if plain.isprintable():
        return plain
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in plain
    )


def say(message: str, *, color: str = "") -> None:
    """Write a message to the user, on stderr; lines stay lines."""
    for line in message.split("\n"):
        sys.stderr.write(paint(clean(line), color, sys.stderr) + "\n")
    sys.stderr.flush()


def say_lines(lines: "Sequence[str]") -> None:
    """Write an error to the user: what is wrong, and below it what to do."""
    say(f"lifebus: {lines[0]}", color="red")
    for line in lines[1:]:
        say(f"  {line}")


def put(line: str) -> None:
    """Write one line of data to stdout and flush it, so that a reader sees it at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def put_fact(name: str, fact: str, column: int) -> None:
    """Write a name, padded to a column, and a fact beside it; on a terminal its further lines stand in that column."""
    if not sys.stdout.isatty():
        put(f"{name} {fact}")
        return
    first, *others = wrapped(fact, max(_NARROWEST, terminal_columns() - column - 1))
    put(f"{name} {first}")
    for line in others:
        put(" " * (column + 1) + line)


def wrapped(text: str, room: int) -> "list[str]":
    """Return the lines of a text, cut at its spaces; a word that is too long has a line of its own."""
    # `textwrap` would load `re` and compile its rules, which takes longer than a quick command.
    lines: list[str] = []
    line = gap = ""
    # Of spaces in a row all are kept within a line, and none where one ends.
    for word in text.rstrip(" ").split(" "):
        if not word:
            gap += " "
            continue
        if len(line) + len(gap) + len(word) <= room:
            line += gap + word
        else:
            lines += [line] if line else []
            line = word
        gap = " "
    return [*lines, line]


def terminal_columns() -> int:
    """Return how wide the terminal is: what COLUMNS says, else what stdout is, else 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        found = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (OSError, ValueError):  # no terminal, or closed
        found = 0
    return found or _USUAL_COLUMNS


def put_bytes(line: bytes) -> None:
    """Write one line of raw bytes to stdout; flushed with the buffer."""
    sys.stdout.buffer.write(line + b"\n")


def put_json(value: "Any", *, indent: int = 2) -> None:
    """Write a JSON document to stdout; with an indent of 0 it is one line."""
    import msgspec  # noqa: PLC0415  not every command needs it

    encoded = msgspec.json.encode(value, enc_hook=str)
    put((msgspec.json.format(encoded, indent=indent) if indent else encoded).decode())


def size_text(count: int) -> str:
    """Return a number of bytes as people say it."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  the next unit
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def put_whole_json(value: "Any", *, indent: int = 2) -> None:
    """Write a JSON document in which every field stands, also with its usual value: no script has to know those."""
    put_json(_whole(value), indent=indent)


def _whole(value: "Any") -> "Any":
    """Return documents as maps of all their fields, as deep as they go."""
    from collections.abc import Mapping  # noqa: PLC0415  as below
    from typing import cast  # noqa: PLC0415

    import msgspec  # noqa: PLC0415  not every command needs it

    if isinstance(value, msgspec.Struct):
        return {one.encode_name: _whole(getattr(value, one.name)) for one in msgspec.structs.fields(value)}
    if isinstance(value, Mapping):
        return {name: _whole(one) for name, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole(one) for one in cast("Sequence[Any]", value)]
    return value


def time_text(at_ms: int | None) -> str:
    """Return a time, in milliseconds since the epoch: local on a terminal, in UTC elsewhere; `-` without one."""
    from time import gmtime, localtime, strftime  # noqa: PLC0415  not every command says a time

    from lifebus.cli.wording.receipt_line import YEAR_10000  # noqa: PLC0415

    if at_ms is None:
        return "-"
    seconds = at_ms // 1000
    if not _YEAR_1 <= seconds < YEAR_10000:
        return f"{at_ms} ms"
    # People read their own clock; what a pipe cuts out is compared, here and on other machines.
    if sys.stdout.isatty():
        return strftime("%Y-%m-%d %H:%M:%S", localtime(seconds))
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def put_table(
    titles: "Sequence[str]", rows: "Iterable[Sequence[str]]", *, color_of: "Mapping[str, str] | None" = None
) -> None:
    """Write aligned columns without lines; cells that `color_of` knows are coloured by it.

    On a terminal the table fits its width: the widest cells are cut, with a sign, but never those of the first column,
    whose names other commands take.  Where that is not enough, each row has lines of its own.  A pipe gets everything.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(_width(row[index]) for row in [list(titles), *cells]) for index in range(len(titles))]
    if sys.stdout.isatty():
        room = terminal_columns()
        widths = fitting(widths, room)
        if _excess(widths, room) > 0:
            for line in _record_lines(titles, cells, room, color_of or {}):
                put(line)
            return
    put(paint(_joined(titles, widths), "bold"))
    colors = color_of or {}
    for row in cells:
        # Padding is added outside the colour codes: they take no column, and the last cell needs none.
        last = len(row) - 1
        shown = [_cut(cell, width) for cell, width in zip(row, widths, strict=True)]
        parts = [
            paint(cut, colors.get(cell, "")) + ("" if index == last else " " * (widths[index] - _width(cut)))
            for index, (cell, cut) in enumerate(zip(row, shown, strict=True))
        ]
        put("  ".join(parts).rstrip())


def fitting(widths: "Sequence[int]", room: int) -> list[int]:
    """Return the widths of columns with which a table has room, two spaces between: the widest give way first."""
    found = list(widths)
    excess = _excess(found, room)
    while excess > 0:
        widest = max(range(1, len(found)), key=lambda index: found[index], default=None)
        # Narrower columns would say nothing any more.
        if widest is None or found[widest] <= _NARROWEST:
            break
        found[widest] -= 1
        excess -= 1
    return found


def _excess(widths: "Sequence[int]", room: int) -> int:
    """Return how many columns a table is too wide, with two spaces between."""
    return sum(widths) + 2 * (len(widths) - 1) - room


def _record_lines(
    titles: "Sequence[str]", rows: "Iterable[Sequence[str]]", room: int, colors: "Mapping[str, str]"
) -> "Iterator[str]":
    """Yield a table as records: the first cell of a row, and below it the others with their titles, as they fit."""
    for first, *others in rows:
        yield paint(first, "bold")
        line, used = "", 0
        for title, cell in zip(titles[1:], others, strict=True):
            value = _cut(cell, max(1, room - _width(title) - 3))
            taken = _width(title) + 1 + _width(value)
            if used and used + 2 + taken > room:
                yield line
                line, used = "", 0
            line += f"  {paint(title, 'dim')} {paint(value, colors.get(cell, ''))}".rstrip()
            used += 2 + taken
        if line:
            yield line


def _cut(cell: str, width: int) -> str:
    """Return what of a cell has room, with a sign where it was cut."""
    if _width(cell) <= width:
        return cell
    short = cell
    while short and _width(short) > width - 1:
        short = short[:-1]
    return f"{short}…"


def _joined(row: "Sequence[str]", widths: "Sequence[int]") -> str:
    return "  ".join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _width(text: str) -> int:
    """Return how many columns the text takes: wide letters take two, marks none."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  only for what is not ASCII

    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
