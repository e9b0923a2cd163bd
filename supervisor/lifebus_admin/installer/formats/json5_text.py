"""The strings, numbers and bare keys of JSON5 (json5.org, version 1.0.0).  Pure."""

import math
import re
from typing import Final

JSON5_KEY: Final = re.compile(r"(?:[^\W\d]|\$)[\w$\u200c\u200d]*")
"""A key without quotes; one with escapes in it is not read."""

JSON5_STRING: Final = re.compile(
    r'"[^"\\\n\r]*(?:\\(?:\r\n|(?s:.))[^"\\\n\r]*)*"' + r"|'[^'\\\n\r]*(?:\\(?:\r\n|(?s:.))[^'\\\n\r]*)*'"
)
"""A string in double or single quotes, with escaped line breaks."""

JSON5_NUMBER: Final = re.compile(
    r"[+-]?(?:Infinity|NaN|0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
"""A number, also hexadecimal, with a sign, or with a bare point."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|(?s:.)))")
_NAMED: Final = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0",
    "\r\n": "", "\n": "", "\r": "", "\u2028": "", "\u2029": "",
}  # fmt: skip
_NAN: Final = math.nan


def json5_string(lexeme: str) -> str:
    """Return what a string with its quotes stands for.

    Raises:
        ValueError: an escape that does not exist.
    """
    text = _ESCAPE.sub(_unescaped, lexeme[1:-1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def json5_number(lexeme: str) -> int | float:
    """Return what a number stands for; every NaN is the same object, so that values with one compare equal.

    Raises:
        ValueError: more digits than Python converts.
    """
    digits = lexeme.lstrip("+-")
    sign = -1 if lexeme.startswith("-") else 1
    if digits == "NaN":
        return _NAN
    if digits == "Infinity":
        return sign * math.inf
    if digits[:2] in {"0x", "0X"}:
        return sign * int(digits, 16)
    return sign * (float(digits) if set(digits) & set(".eE") else int(digits))


def _unescaped(found: re.Match[str]) -> str:
    code, short, other = found.groups()
    if code or short:
        return chr(int(code or short, 16))
    if other in "123456789ux" and other:
        raise ValueError(f"\\{other} is no escape")
    return _NAMED.get(other, other)
