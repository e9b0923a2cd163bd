"""What a session waits for a person to do: begun and ended by receipts, and by nothing else (docs/waiting.md).

A receipt says it with `waiting` (`begun` or `ended`) and `waiting_for` in `telemetry_summary`.  Where the harness has
ids for what it asks, each request is a wait of its own; elsewhere a frame has one wait of each kind, the newest.
A frame that ends takes its own waits with it, the next turn what waited for it, and the session's start or end all.
"""

from collections.abc import Mapping
from typing import Any, Final

from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.telemetry_keys import (
    BACKGROUND_CLIENT,
    FRAME,
    PARENT_FRAME,
    WAITING,
    WAITING_FOR,
    WAITING_ID,
    WAITING_KIND,
    WAITING_SINCE,
)
from lifebus_contract import LifecycleEvent
from lifebus_contract.views import Wait

BEGUN: Final = "begun"
"""The word of `waiting` where a wait begins."""
ENDED: Final = "ended"
"""The word of `waiting` where it ends."""

PERMISSION: Final = "permission"
"""A person has to allow something, or to refuse it."""
INPUT: Final = "input"
"""A person has to answer a question."""
IDLE: Final = "idle"
"""The harness says that it waits for the next prompt."""
KINDS: Final = frozenset({PERMISSION, INPUT, IDLE})
"""Everything that a session can wait for."""

MAX_WAITS: Final = 32
"""Most waits that one session remembers; the oldest is forgotten first."""

_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_STARTS: Final = frozenset({LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED})
_CHANGES: Final = _OPENS | _STARTS | {LifecycleEvent.FRAME_ENDED, LifecycleEvent.SESSION_ENDED}

Waits = tuple[Wait, ...]
"""What a session waits for, the oldest first."""


def next_waits(known: Waits, receipt: ReceiptLike) -> Waits:
    """Return what a session waits for after one more receipt; the same object if nothing changed."""
    facts = receipt.telemetry_summary
    if WAITING_FOR in facts:
        # A background client's receipt repeats what may be over by now.
        return known if BACKGROUND_CLIENT in facts else waits_told(known, facts, at_ms=receipt.at_epoch_s * 1000)
    if not known or receipt.event not in _CHANGES:
        return known
    over = waits_over(known, receipt.event, _text(facts.get(FRAME)), nested=facts.get(PARENT_FRAME) is not None)
    return tuple(one for one in known if one not in over) if over else known


def waits_over(known: Waits, event: LifecycleEvent, frame_id: str | None, *, nested: bool) -> Waits:
    """Return the waits that an event puts an end to; `nested` says that its frame stands in another one.

    A turn that begins in a session shows that nobody waits for a prompt; only its own end, or that of its frame, shows
    that a permission is not waited for any more.
    """
    if event in _STARTS or event is LifecycleEvent.SESSION_ENDED:
        return known
    if event in {LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED}:
        own = [one for one in known if one.frame_id == frame_id and one.waiting_for != IDLE]
        # A wait that names no frame is the turn's.
        loose = [one for one in known if one.frame_id is None and one.waiting_for != IDLE and not nested]
        return (*own, *(one for one in loose if one not in own))
    if event in _OPENS and not nested:
        return tuple(one for one in known if one.waiting_for == IDLE)
    return ()


def same_waits(known: Waits, waiting_for: str, frame_id: str | None, request: str | None) -> Waits:
    """Return the known waits that a report is about: of its id, else of its frame; the ones it stands for."""
    if request is not None:
        # The same request, told by a hook that has no ids, is known by nothing else.
        return tuple(one for one in known if one.request == request or _is_loose(one, waiting_for))
    return tuple(
        one
        for one in known
        if one.request is None and one.waiting_for == waiting_for and one.frame_id == (frame_id or one.frame_id)
    )


def _is_loose(one: Wait, waiting_for: str) -> bool:
    return one.request is None and one.waiting_for == waiting_for


def waits_told(known: Waits, facts: Mapping[str, Any], *, at_ms: int) -> Waits:
    """Return the waits after facts that speak of one; what they say in no known words changes nothing.

    `at_ms` is when a wait begins of which they do not say it, in milliseconds since 1970.
    """
    waiting_for, since = facts.get(WAITING_FOR), facts.get(WAITING_SINCE)
    frame_id, request = _text(facts.get(FRAME)), _text(facts.get(WAITING_ID))
    if not isinstance(waiting_for, str) or waiting_for not in KINDS:
        return known
    same = same_waits(known, waiting_for, frame_id, request)
    others = tuple(one for one in known if one not in same)
    if facts.get(WAITING) != BEGUN:
        return others if facts.get(WAITING) == ENDED and same else known
    begun = Wait(
        waiting_for=waiting_for,
        # Not isinstance: a bool is an int as well.
        since_ms=since if type(since) is int else at_ms,
        kind=_text(facts.get(WAITING_KIND)),
        frame_id=frame_id,
        nested=facts.get(PARENT_FRAME) is not None,
        request=request,
    )
    return (*others, begun)[-MAX_WAITS:]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
