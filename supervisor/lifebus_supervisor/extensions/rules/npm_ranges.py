"""Version ranges as npm writes them, read as alternatives of the ranges of `packaging`.  Pure.

What is read: comparators, ``^``, ``~``, ``x`` and ``*``, ranges with a hyphen, ``||``.  Everything else is refused by
name, because a range that is guessed at would load what its author has excluded.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_PART: Final = r"(?:0|[1-9]\d{0,8}|[xX*])"
_PARTIAL: Final = rf"[v=]?\s*({_PART})(?:\.({_PART})(?:\.({_PART}))?)?"
_COMPARATOR: Final = re.compile(rf"(\^|~>?|>=|<=|>|<|=)?\s*{_PARTIAL}(?=\s|$)\s*")
_HYPHEN: Final = re.compile(rf"{_PARTIAL}\s+-\s+{_PARTIAL}")
_LONGEST: Final = 256
_WHOLE: Final = 3
_NONE: Final = "<0.0.0.dev0"

Range = tuple["SpecifierSet", ...]
"""Alternatives: a version lies within where it lies within one of them."""


class UnreadableRange(ValueError):
    """A range is not written as its form asks; the text says what is not understood."""


def read_npm_range(text: str) -> Range:
    """Return the alternatives of an npm range; the empty one, like ``*``, holds every version.

    Raises:
        UnreadableRange: it is none, or uses what is not read (labels of pre-releases and builds).
    """
    if len(text) > _LONGEST:
        raise UnreadableRange(f"a range of more than {_LONGEST} characters")
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415  only where an extension asks for a version

    return tuple(SpecifierSet(_alternative(part.strip())) for part in text.split("||"))


def read_pep440_range(text: str) -> Range:
    """Return a range as `extension.toml` has it, such as ``>=1,<2``.

    Raises:
        UnreadableRange: it is none.
    """
    if len(text) > _LONGEST:
        raise UnreadableRange(f"a range of more than {_LONGEST} characters")
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415  as above

    try:
        return (SpecifierSet(text),)
    except InvalidSpecifier:
        raise UnreadableRange(f"`{text}` is no range such as `>=1,<2`") from None


def read_version(text: str) -> "Version":
    """Return a version, completed to three numbers as npm's loose form allows: ``1`` is ``1.0.0``.

    Raises:
        UnreadableRange: it is none.
    """
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  as above

    try:
        return Version(text.strip().removeprefix("v"))
    except InvalidVersion:
        raise UnreadableRange(f"`{text[:64]}` is no version") from None


def is_within(version: "Version", alternatives: Range) -> bool:
    """Whether a version lies within a range; pre-releases are tested as all others are."""
    return any(one.contains(version, prereleases=True) for one in alternatives)


def _alternative(text: str) -> str:
    """Return one alternative as `packaging` writes it."""
    if (found := _HYPHEN.fullmatch(text)) is not None:
        parts = found.groups()
        return ",".join(filter(None, (_from(_numbers(parts[:3])), _up_to(_numbers(parts[3:])))))
    clauses: list[str] = []
    at = 0
    while at < len(text):
        found = _COMPARATOR.match(text, at)
        if found is None:
            raise UnreadableRange(f"`{text[at:][:64]}` is not understood in the npm range `{text[:64]}`")
        clauses.append(_clause(found[1] or "=", _numbers(found.groups()[1:])))
        at = found.end()
    return ",".join(filter(None, clauses))


def _numbers(parts: tuple[str | None, ...]) -> tuple[int, ...]:
    """Return the numbers that a version begins with, up to the first that is left open."""
    numbers: list[int] = []
    for part in parts:
        if part is None or not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _clause(operator: str, given: tuple[int, ...]) -> str:
    match operator:
        case "^":
            clause = _between(given, _caret_end(given))
        case "~" | "~>":
            clause = _between(given, _next(given[:2]))
        case "=":
            clause = _between(given, _next(given))
        case ">=":
            clause = _from(given)
        case "<=":
            clause = _up_to(given)
        case ">":
            clause = _above(given)
        case _:
            clause = f"<{_text(given)}" if given else _NONE
    return clause


def _caret_end(given: tuple[int, ...]) -> tuple[int, ...]:
    """Return what ``^`` ends before: a change of the first number that is not zero."""
    first = next((index for index, number in enumerate(given) if number), len(given) - 1)
    return _next(given[: first + 1])


def _next(given: tuple[int, ...]) -> tuple[int, ...]:
    return (*given[:-1], given[-1] + 1) if given else ()


def _between(first: tuple[int, ...], end: tuple[int, ...]) -> str:
    return f">={_text(first)},<{_text(end)}" if first else ""


def _from(given: tuple[int, ...]) -> str:
    return f">={_text(given)}" if given else ""


def _up_to(given: tuple[int, ...]) -> str:
    if not given:
        return ""
    return f"<={_text(given)}" if len(given) == _WHOLE else f"<{_text(_next(given))}"


def _above(given: tuple[int, ...]) -> str:
    if not given:
        return _NONE
    return f">{_text(given)}" if len(given) == _WHOLE else f">={_text(_next(given))}"


def _text(given: tuple[int, ...]) -> str:
    return ".".join(map(str, (*given, 0, 0)[:3]))
