"""Example calls of a harness's hooks, and what is expected of each."""

from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_adapters.adapter import HookCall
from lifebus_contract import (
    IdSource,
    InvalidRequest,
    LifecycleEvent,
    ManifestPlacementClass,
    load_json,
    validate,
)

PRIVATE: Final = "PRIVATE"
"""Text in an example's payload that holds this word is a prompt, an answer or tool data: it must go no further."""

CONTEXT: Final = "{context}"
"""Where in an example's `answer` the text for the model stands."""

_STARTED_MS: Final = 1_800_000_000_000
_MAX_EXAMPLES: Final = 1_000


class Example(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One native call.

    `hook` is the hook's name on the command line, and where the payload names it too.  `yields` are the events that
    the call stands for, in order; `subagent` says that they are about a nested frame, `sessionless` that the harness
    does not say which session it is.  `takes` is the slot that the hook's answer fills, and `answer` what the harness
    reads then, with `CONTEXT` in the place of the text.  `shows` says that the harness shows the hook's output to the
    user: one short line, whatever there is to deliver.  `about` is for people.
    """

    hook: str
    payload: dict[str, Any]
    yields: tuple[LifecycleEvent, ...] = ()
    subagent: bool = False
    sessionless: bool = False
    takes: ManifestPlacementClass | None = None
    answer: dict[str, Any] | None = None
    shows: bool = False
    about: str = ""

    @property
    def title(self) -> str:
        """Its name in findings."""
        return f"{self.hook} ({self.about})" if self.about else self.hook


def load_examples(data: bytes) -> tuple[Example, ...]:
    """Return the examples of a file: one JSON object a line.

    Raises:
        InvalidRequest: a line is none; the text names it by its number.
    """
    found: list[Example] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(validate(load_json(line), Example))
        except InvalidRequest as fault:
            detail = f"example in line {number}: {fault.detail}"
            raise InvalidRequest(detail, code=fault.code, field=fault.field) from None
        if len(found) > _MAX_EXAMPLES:
            raise InvalidRequest(f"more than {_MAX_EXAMPLES} examples", code="too_large")
    return tuple(found)


def call_of(example: Example, adapter_id: str, number: int = 0) -> HookCall:
    """Return the example as a hook call; another number makes it another call."""
    return call_with(msgspec.json.encode(example.payload), example.hook, adapter_id, number)


def call_with(stdin: bytes, hook: str, adapter_id: str, number: int = 0, **changes: Any) -> HookCall:
    """Return a hook call with any payload."""
    settings: dict[str, Any] = {"cwd": "/home/dev/project", "env": dict[str, str](), **changes}
    # The form that the hook makes: its time and 64 random bits.
    call_id = f"hook-{_STARTED_MS:x}-{number:016x}"
    return HookCall(call_id=call_id, adapter_id=adapter_id, hook=hook, stdin=stdin, **settings)


def ids_for(call: HookCall) -> IdSource:
    """Return ids that depend on the call alone, as the broker gives them."""
    # Deterministic, so that two readings of one call can be compared.
    seed = sha256(call.call_id.encode()).digest()
    return IdSource(lambda: _STARTED_MS, lambda count: seed[:count])
