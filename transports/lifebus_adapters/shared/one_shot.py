"""A harness's one-shot mode as data: how a prompt is given, what its exit codes and last words mean.  Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from lifebus_contract.fields import MAX_INTEGER
from lifebus_contract.flows import CodeMap, CodeRule, HarnessPrompt, StepVerdict

FRESH_SESSION: Final = "{fresh_session}"
"""Where the id of a new session stands in a command."""

_LONGEST_NAME: Final = 256
_LONGEST_MESSAGE: Final = 512
_LONGEST_DOCUMENT: Final = 262_144


class TokenUse(Struct, frozen=True, kw_only=True):
    """Tokens of all requests of a run; `input_tokens` are all that were sent, those from and for a cache included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class OneShotReport(Struct, frozen=True, kw_only=True):
    """What a harness says of one prompt; what it does not say is None, or empty.

    `failed` goes before an exit code of 0; `message` is its reason.  `calls` counts requests to the model.
    `cost_micros` is the harness's own estimate in millionths of a US dollar, of this prompt alone.  Where
    `is_session_sum` is set, `tokens` are those of the whole session, what came before this prompt included.
    """

    session_id: str | None = None
    failed: bool | None = None
    message: str = ""
    model: str | None = None
    calls: int | None = None
    tokens: TokenUse | None = None
    is_session_sum: bool = False
    cost_micros: int | None = None


Reader = Callable[[bytes, bytes], OneShotReport]
"""Reads what is kept of stdout and stderr; either may be cut in the middle, or end in the middle of a line."""


class OneShot(Struct, frozen=True, kw_only=True):
    """How a harness runs one prompt and ends.

    The command is `words`, `model_option` and the model where one is asked for, the user's own arguments, and the
    prompt behind `prompt_words`; where the last of those ends with ``=`` the prompt is a part of it.  The word
    `FRESH_SESSION` stands for a session id that no other run has.  `variables` are those that the harness reads its
    credentials and settings from (a star for any ending).
    """

    words: tuple[str, ...]
    prompt_words: tuple[str, ...]
    read: Reader
    model_option: str = "--model"
    variables: tuple[str, ...] = ()
    codes: CodeMap = CodeMap()

    def command(self, prompt: HarnessPrompt, fresh_session: str) -> tuple[str, ...]:
        """Return the program and its arguments; no prompt is ever taken for an option."""
        words = tuple(fresh_session if word == FRESH_SESSION else word for word in self.words)
        model = (self.model_option, prompt.model) if prompt.model is not None else ()
        if self.prompt_words and self.prompt_words[-1].endswith("="):
            *before, last = self.prompt_words
            return (*words, *model, *prompt.arguments, *before, last + prompt.text)
        return (*words, *model, *prompt.arguments, *self.prompt_words, prompt.text)


def code_map(retry: Mapping[int, str], alert: Mapping[int, str]) -> CodeMap:
    """Return what the exit codes of a harness mean: 0 is done, those named are tried again or need a repair."""
    rules = [CodeRule(first=0, last=0, verdict=StepVerdict.PROCEED)]
    for codes, verdict in ((retry, StepVerdict.RETRY), (alert, StepVerdict.ALERT)):
        rules += [CodeRule(first=code, last=code, verdict=verdict, label=label) for code, label in codes.items()]
    return CodeMap(rules=tuple(rules))


def records(output: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that stand on lines of their own; a line that is none, or was cut, is passed over."""
    for line in output.splitlines():
        if line.startswith(b"{"):
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            yield record


def last_document(output: bytes) -> dict[str, Any]:
    """Return the JSON object that an output ends with, over several lines or one; an empty one where there is none."""
    text = output[-_LONGEST_DOCUMENT:].rstrip()
    start = len(text)
    while (start := text.rfind(b"{", 0, start)) >= 0:
        if start and text[start - 1 : start] != b"\n":  # inside the document
            continue
        try:
            found = msgspec.json.decode(text[start:])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        return part(found)
    return {}


def part(record: object, *names: str) -> dict[str, Any]:
    """Return an object within an object; an empty one where there is none."""
    for name in names:
        record = cast("dict[str, Any]", record).get(name) if isinstance(record, dict) else None
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}


def name(value: object) -> str | None:
    """Return an id or a name; None where it is none."""
    is_one = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()
    return value if is_one and isinstance(value, str) else None


def message(value: object) -> str:
    """Return a reason for people, on one line and bounded."""
    return " ".join(value.split())[:_LONGEST_MESSAGE] if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a count of tokens; 0 where it is none."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER
    return value if is_one and isinstance(value, int) else 0


def micros(dollars: object) -> int | None:
    """Return an amount in US dollars as millionths; None where it is none."""
    if isinstance(dollars, bool) or not isinstance(dollars, int | float):
        return None
    # A float of dollars has 15 digits: rounding brings back the millionths that were meant.
    return round(dollars * 1_000_000) if 0 <= dollars <= MAX_INTEGER / 1_000_000 else None
