"""JSON to plain values and back without `json`, which would be a third of a quick command.

What is written is to the byte what `msgspec.json` writes of the same values.
"""

from _json import encode_basestring, make_scanner

TYPE_CHECKING = False  # `typing` costs as much as a quick command
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class _Rules:
    """What the scanner asks: how JSON becomes values, the usual way."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: "dict[str, str]" = {}  # noqa: RUF012  the scanner's own

    @staticmethod
    def parse_constant(name: str) -> "Any":
        """Refuse what is no JSON.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{name} is no JSON")


_SPACE = " \t\r\n"
# It takes whatever has these attributes.
_scan: "Callable[[str, int], tuple[Any, int]]" = make_scanner(_Rules)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def read_json(text: "str | bytes") -> "Any":
    """Return the value that a document is.

    Raises:
        ValueError: it is no JSON.
    """
    whole = (text.decode() if isinstance(text, bytes) else text).strip(_SPACE)
    try:
        value, end = _scan(whole, 0)
    except StopIteration:
        raise ValueError("no JSON") from None
    if end != len(whole):
        raise ValueError("more than one value of JSON")
    return value


def json_text(value: "Any", *, indent: int = 0) -> str:
    """Return a value of maps, lists, texts, whole numbers, true, false and null as JSON; on one line without an indent.

    Raises:
        TypeError: it holds something else.
    """
    return _written(value, indent, "\n" if indent else "")


def _written(value: "Any", indent: int, line: str) -> str:
    """Return a value; `line` begins a line in which it stands, and is empty where all stands on one."""
    kind = value.__class__
    if kind is str:
        return encode_basestring(value)
    if kind is int:
        return str(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    within = line and line + " " * indent
    if kind is dict:
        colon = ": " if line else ":"
        pairs = (f"{encode_basestring(name)}{colon}{_written(one, indent, within)}" for name, one in value.items())
        return _joined("{", pairs, "}", within, line)
    if kind in {list, tuple}:
        return _joined("[", (_written(one, indent, within) for one in value), "]", within, line)
    raise TypeError(f"no JSON of {kind.__name__}")


def _joined(begin: str, parts: "Iterable[str]", end: str, within: str, line: str) -> str:
    inner = f",{within}".join(parts)
    return f"{begin}{within}{inner}{line}{end}" if inner else begin + end
