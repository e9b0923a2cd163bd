"""What waits for somebody, over all sessions, and the working set: all that a resume shows (docs/ledger.md, "Resume").

Both are compiled from the stores, and from pins; neither is a state of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import canonical
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.state.session_state import OpenFrame, SessionState
from lifebus_broker.state.session_table import SessionTable
from lifebus_contract import LifecycleEvent, PressureLevel

MAX_PENDING: Final = 4_096
"""Most pending things of one kind that are listed, the newest; of more, `left_out` says how many are not."""

Pending = dict[str, Any]
"""The kinds of pending things, each with a list of plain maps in the order of the log; empty kinds are left out."""

_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


class Folded(Protocol):
    """What a working set is compiled from: the stores after the receipt at `position`."""

    position: int
    story: SessionTable
    unlock: CapabilityState


class LiveSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that is not over, or of which a frame is open."""

    adapter_id: str
    compactions: int = 0
    frames: tuple[OpenFrame, ...] = ()
    harness_session_id: str
    last_event: LifecycleEvent | None
    last_position: int
    level: PressureLevel | None = None
    sequence: int
    started: bool = False


class WorkingSet(Struct, frozen=True, kw_only=True):
    """What was visible at a boundary of the log: nothing in it is invented, and nothing that is open is missing.

    `weaker` has one entry a scope: adapter, session or None, and the last words about its capabilities.
    """

    pending_state: Pending | None
    pins_snapshot: Mapping[str, Any]
    position: int
    sessions: tuple[LiveSession, ...]
    weaker: tuple[tuple[str, str | None, dict[str, str]], ...]


def pending_in(stories: SessionTable) -> Pending | None:
    """Return what is pending, as plain data that may be frozen; None where nothing is.

    ``PENDING_ROLL`` are frames without a recorded end, ``PENDING_CONSENT`` open questions to an operator,
    ``PENDING_HANDOUT`` payloads that were accepted and have no place (docs/contract.md 10).
    """
    found: dict[str, list[dict[str, Any]]] = {"PENDING_CONSENT": [], "PENDING_HANDOUT": [], "PENDING_ROLL": []}
    for story in stories.at_hand():
        key = {"adapter_id": story.adapter_id, "harness_session_id": story.harness_session_id}
        found["PENDING_CONSENT"] += [{**key, **_plain(one)} for one in story.questions]
        found["PENDING_HANDOUT"] += [{**key, **_plain(one)} for one in story.handouts]
        found["PENDING_ROLL"] += [{**key, **_plain(one)} for one in story.frames]
    pending: Pending = {}
    left_out: dict[str, int] = {}
    for kind, items in found.items():
        if items:
            items.sort(key=_position)
            pending[kind] = items[-MAX_PENDING:]
        if len(items) > MAX_PENDING:
            left_out[kind] = len(items) - MAX_PENDING
    if left_out:
        pending["left_out"] = left_out
    return pending or None


def compile_working_set(stores: Folded, pins: Mapping[str, Any]) -> WorkingSet:
    """Return the working set of the stores; of what is weaker, that of adapters and live sessions."""
    live = tuple(_live(stores.story))
    keys = {(one.adapter_id, one.harness_session_id) for one in live}
    scopes = [*sorted(stores.unlock.adapters), *sorted(key for key in stores.unlock.sessions if key in keys)]
    weaker = tuple((*scope, {name: now.value for name, now in stores.unlock.words(scope).items()}) for scope in scopes)
    return WorkingSet(
        pending_state=pending_in(stores.story),
        pins_snapshot=pins,
        position=stores.position,
        sessions=live,
        weaker=weaker,
    )


def encode_working_set(working: WorkingSet) -> bytes:
    """Return the canonical bytes of a working set.

    Raises:
        ValueError: the pins have no canonical form.
    """
    canonical(dict(working.pins_snapshot))
    return _ENCODE(working)


def _live(stories: SessionTable) -> Iterator[LiveSession]:
    for story in stories.at_hand():
        if not story.is_closed:
            yield _live_session(story)


def _live_session(story: SessionState) -> LiveSession:
    return LiveSession(
        adapter_id=story.adapter_id,
        compactions=story.compactions,
        frames=story.frames,
        harness_session_id=story.harness_session_id,
        last_event=story.last_event,
        last_position=story.last_position,
        level=story.level,
        sequence=story.sequence,
        started=story.started,
    )


def _plain(item: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(item)
    return plain


def _position(item: Mapping[str, Any]) -> int:
    return int(item["position"])
