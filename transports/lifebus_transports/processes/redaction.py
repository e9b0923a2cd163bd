"""What a command wrote to stderr, made fit for a receipt: short, printable, without what looks like a secret.  Pure.

Nobody can recognise every secret; what is named like one, has the form of one, or was given as one, goes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

LONGEST: Final = 500
"""How many characters of stderr stand in a receipt: the last ones."""

_KEPT: Final = 8_192
_HIDDEN: Final = "[redacted]"
_BLOCK: Final = 16
_SHORTEST_SECRET: Final = 4
_WORDS: Final = (
    r"(?:token|secret|passw(?:or)?d|passphrase|pwd|credential|cookie|session[_-]?id|auth(?!or)|key(?!error))"
)
_VALUE: Final = r"(?:\"[^\"\n]{0,4096}\"?|'[^'\n]{0,4096}'?|[^\s,;\"']+)"
_SECRET_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_DIRECTORIES: Final = frozenset({"PWD", "OLDPWD"})
_STEERING: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_IN_A_ROW: Final = re.compile(rf"(?:{re.escape(_HIDDEN)}\s?){{2,}}")
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL), _HIDDEN),
    (re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)([\"']?\s{0,8}[:=]).*"), rf"\1\2 {_HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,8}[\w.~+/=-]{4,}"), rf"\1 {_HIDDEN}"),
    (re.compile(r"://[^\s/@]{1,512}@"), f"://{_HIDDEN}@"),
    (re.compile(rf"(?i)((?<![\w-])--?[a-z_-]{{0,32}}{_WORDS}[\w-]{{0,32}}\s{{1,8}}){_VALUE}"), rf"\1{_HIDDEN}"),
    (re.compile(rf"(?i)({_WORDS}[\w.-]{{0,32}}[\"']?\]?\s{{0,8}}(?:=>|[:=])\s{{0,8}}){_VALUE}"), rf"\1{_HIDDEN}"),
    (re.compile(r"\b(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|AKIA|AIza)[-_]?[\w-]{8,}"), _HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}"), _HIDDEN),
)


class StderrTail:
    """Keeps the last bytes of a stream, however much comes."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def add(self, data: bytes) -> None:
        """Take in what came."""
        self._kept += data
        if len(self._kept) > _KEPT:
            del self._kept[:-_KEPT]
            self._cut = True

    def clear(self) -> None:
        """Forget what came so far."""
        self._kept.clear()
        self._cut = False

    def text(self) -> str:
        """Return what is kept, but of a word that the cut went through nothing: half a secret looks like none."""
        text = self._kept.decode(errors="replace")
        if not self._cut:
            return text
        _, *rest = text.split(None, 1)
        return rest[0] if rest else ""


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names are those of secrets."""
    # A shell's PWD is a directory and no password; hidden, every path beneath it would be.
    return [value for name, value in environment.items() if value and name not in _DIRECTORIES and names_secret(name)]


def redact(text: str, secrets: Iterable[str] = (), bodies: Iterable[str] = ()) -> str:
    """Return the end of a text, at most `LONGEST` characters: printable, no secret, nothing quoted from a body."""
    # First of all: an escape sequence inside a secret would hide it from every pattern below.
    text = _STEERING.sub("", text)
    text = hide_secrets(_without_quotes(text, [form for body in bodies for form in _forms_of(body)]), secrets)
    # Control characters may steer the terminal of whoever reads the receipt.
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return plain if len(plain) <= LONGEST else "…" + plain[1 - LONGEST :]


def names_secret(name: str) -> bool:
    """Whether what has this name is a secret, by the name."""
    return bool(_SECRET_NAME.search(name))


def hide_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without what looks like a secret, or was given as one; all else stays, line ends too."""
    text = _STEERING.sub("", text)
    # The longest first: a short secret may be a part of a longer one.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, _HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _forms_of(body: str) -> set[str]:
    """Return a body as it is, and as it stands in JSON."""
    plain = body.strip()
    return {plain, json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]}


def _without_quotes(text: str, bodies: Iterable[str]) -> str:
    """Hide what a text quotes from bodies: the whole of a short one, any 31 characters in a row of a long one."""
    blocks: dict[str, tuple[str, int]] = {}
    for body in bodies:
        if _SHORTEST_SECRET <= len(body) < 2 * _BLOCK:
            text = text.replace(body, _HIDDEN)
        # Any 31 characters in a row hold one whole block, wherever they begin.
        for start in range(0, len(body) - _BLOCK + 1, _BLOCK):
            blocks[body[start : start + _BLOCK]] = (body, start)
    parts: list[str] = []
    done = at = 0
    while at <= len(text) - _BLOCK:
        found = blocks.get(text[at : at + _BLOCK])
        if found is None:
            at += 1
            continue
        first, last = _stretch(text, at, *found)
        parts += [text[done : max(first, done)], _HIDDEN]
        done = at = last
    return _IN_A_ROW.sub(_HIDDEN, "".join([*parts, text[done:]]))


def _stretch(text: str, at: int, body: str, start: int) -> tuple[int, int]:
    """Return from where to where a text says the same as a body around a place where both agree."""
    first, last = at, at + _BLOCK
    while first > 0 and start - (at - first) > 0 and text[first - 1] == body[start - (at - first) - 1]:
        first -= 1
    while last < len(text) and start + (last - at) < len(body) and text[last] == body[start + (last - at)]:
        last += 1
    return first, last
