"""Details of the contract in words of people: no paths of JSON at their beginning, no names of types.  Pure."""

import re
from typing import Final

_PATH: Final = re.compile(r"(?P<where>^|: )\$(?P<path>[\w.\[\]-]*)(?: \((?P<flag>--[\w-]+)\))?: ")
_TYPES: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_RULES: Final = (
    (re.compile(r"Expected `\w+` of length >= 1$"), "it must not be empty"),
    (re.compile(r"Expected `str` of length <= (\d+)$"), r"it has more than \1 characters"),
    (re.compile(r"Expected `(?:array|object)` of length <= (\d+)$"), r"it has more than \1 entries"),
    (re.compile(r"Expected `(?:int|float)` >= (\S+)$"), r"it is less than \1"),
    (re.compile(r"Expected `(?:int|float)` <= (\S+)$"), r"it is more than \1"),
    (re.compile(r"Invalid enum value '?([^']*)'?$"), r"there is no `\1`"),
    (re.compile(r"Object missing required field `(\w+)`$"), r"`\1` is missing"),
)
_WRONG_TYPE: Final = re.compile(r"Expected `(?P<wanted>[\w |]+)`, got `(?P<given>\w+)`$")


def plain_detail(detail: str) -> str:
    """Return a detail as people read it: the flag or the field instead of the path, the rule in plain words."""
    found = _PATH.search(detail)
    if found is None:
        return detail
    name = found["flag"] or found["path"].lstrip(".")
    shown = name if found["flag"] or not name else f"`{name}`"
    head = detail[: found.start()] + found["where"] + (f"{shown}: " if shown else "")
    return head + _plain_rule(detail[found.end() :])


def _plain_rule(rule: str) -> str:
    for pattern, words in _RULES:
        found = pattern.match(rule)
        if found is not None:
            return found.expand(words)
    wrong = _WRONG_TYPE.match(rule)
    return rule if wrong is None else f"it is {_kinds(wrong['given'])}, not {_kinds(wrong['wanted'])}"


def _kinds(names: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))
