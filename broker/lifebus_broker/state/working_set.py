"""What is pending over all sessions, and the working set, which is what a resume shows (docs/ledger.md, "Resume").

Both are compiled from the stores, and from pins; neither is a state of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import canonical
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.state.session_names import session_names
from lifebus_broker.state.session_state import OpenFrame, SessionState
from lifebus_broker.state.session_table import SessionTable
from lifebus_contract import LifecycleEvent, PressureLevel
from lifebus_contract.views import Wait

MAX_PENDING: Final = 4_096
"""Most pending things of one kind that are listed, the newest; of more, `left_out` says how many are not."""

Pending = dict[str, Any]
"""The kinds of pending things, each with a list of plain maps in the order of the log; empty kinds are left out."""

_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


class StateSource(Protocol):
    """What a working set is compiled from: the stores after the receipt at `position`."""

    position: int
    sessions: SessionTable
    capabilities: CapabilityState


class LiveSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that is not over, or of which a frame is open; `name` is its short name."""

    adapter_id: str
    compactions: int = 0
    cwd: str | None = None
    frames: tuple[OpenFrame, ...] = ()
    git_branch: str | None = None
    harness_session_id: str
    last_event: LifecycleEvent | None
    last_position: int
    level: PressureLevel | None = None
    name: str
    sequence: int
    started: bool = False
    title: str | None = None
    waits: tuple[Wait, ...] = ()


class WorkingSet(Struct, frozen=True, kw_only=True):
    """What was visible at a boundary of the log: nothing in it is made up, and nothing that is open is missing.

    `weaker` has one entry a scope: adapter, session or None, and the support last reported of its capabilities.
    """

    pending_state: Pending | None
    pins_snapshot: Mapping[str, Any]
    position: int
    sessions: tuple[LiveSession, ...]
    weaker: tuple[tuple[str, str | None, dict[str, str]], ...]


def pending_in(sessions: SessionTable) -> Pending | None:
    """Return what is pending, as plain data that may be frozen; None where nothing is.

    ``PENDING_ROLL`` are frames without a recorded end, ``PENDING_CONSENT`` open questions to an operator,
    ``PENDING_HANDOUT`` payloads that were accepted and have no place (docs/contract.md 10).
    """
    found: dict[str, list[dict[str, Any]]] = {"PENDING_CONSENT": [], "PENDING_HANDOUT": [], "PENDING_ROLL": []}
    for session in sessions.active():
        key = {"adapter_id": session.adapter_id, "harness_session_id": session.harness_session_id}
        found["PENDING_CONSENT"] += [{**key, **_plain(one)} for one in session.questions]
        found["PENDING_HANDOUT"] += [{**key, **_plain(one)} for one in session.handouts]
        found["PENDING_ROLL"] += [{**key, **_plain(one)} for one in session.frames]
    pending: Pending = {}
    left_out: dict[str, int] = {}
    for kind, items in found.items():
        if items:
            # Sessions come by name; people and resumes read by position.
            items.sort(key=_position)
            # The newest: what waits longest is the least likely to be settled still.
            pending[kind] = items[-MAX_PENDING:]
        if len(items) > MAX_PENDING:
            left_out[kind] = len(items) - MAX_PENDING
    if left_out:
        pending["left_out"] = left_out
    return pending or None


def compile_working_set(stores: StateSource, pins: Mapping[str, Any]) -> WorkingSet:
    """Return the working set of the stores; `weaker` is that of whole adapters and of live sessions."""
    live = tuple(_live(stores.sessions))
    # Closed sessions lost nothing that anybody still needs.
    keys = {(one.adapter_id, one.harness_session_id) for one in live}
    scopes = [
        *sorted(stores.capabilities.adapters),
        *sorted(key for key in stores.capabilities.sessions if key in keys),
    ]
    weaker = tuple(
        (*scope, {name: now.value for name, now in stores.capabilities.reported(scope).items()}) for scope in scopes
    )
    return WorkingSet(
        pending_state=pending_in(stores.sessions),
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
    # The encoder would take floats, which have no canonical form.
    canonical(dict(working.pins_snapshot))
    return _ENCODE(working)


def _live(sessions: SessionTable) -> Iterator[LiveSession]:
    names = session_names(sessions)
    for session in sessions.active():
        if not session.is_closed:
            yield _live_session(session, names[session.adapter_id, session.harness_session_id])


def _live_session(session: SessionState, name: str) -> LiveSession:
    return LiveSession(
        adapter_id=session.adapter_id,
        compactions=session.compactions,
        cwd=session.cwd,
        frames=session.frames,
        git_branch=session.git_branch,
        harness_session_id=session.harness_session_id,
        last_event=session.last_event,
        last_position=session.last_position,
        level=session.level,
        name=name,
        sequence=session.sequence,
        started=session.started,
        title=session.title,
        waits=session.waits,
    )


def _plain(item: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(item)
    return plain


def _position(item: Mapping[str, Any]) -> int:
    return int(item["position"])
