"""Every fact that a receipt may carry, by its event, and what each event says.  Pure.

This table is the source of the pages in docs/events and of `lifebus events`; a test compares it with what the
recordings of every harness yield.  Apps may add facts of their own: those are their own affair.
"""

from collections.abc import Mapping
from typing import Final

from lifebus_contract.facts import any_event, contexts, frames, sessions, supervision
from lifebus_contract.facts.fact import Fact
from lifebus_contract.vocabulary import LifecycleEvent

COMMON: Final = any_event.FACTS
"""Facts that receipts of any event may carry."""

_OWN: Final = (*sessions.FACTS, *frames.FACTS, *contexts.FACTS, *supervision.FACTS)

SAYS: Final[Mapping[LifecycleEvent, str]] = {
    LifecycleEvent.SESSION_STARTING: "a session is about to start, to attach or to resume",
    LifecycleEvent.SESSION_STARTED: "it is live; a client may bind its own state to it",
    LifecycleEvent.FRAME_OPENING: "a frame (a prompt, a turn, a nested call) is about to take payloads",
    LifecycleEvent.FRAME_OPENED: "the frame took what was delivered, or delivery was skipped",
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: "evidence of how full the context is; never an action",
    LifecycleEvent.CONTEXT_COMPACTED: "the harness has rewritten its context",
    LifecycleEvent.FRAME_ENDING: "a frame announces its end",
    LifecycleEvent.FRAME_ENDED: "a frame has ended, failed or been abandoned",
    LifecycleEvent.SESSION_ENDING: "a session announces its end",
    LifecycleEvent.SESSION_ENDED: "a session has ended",
    LifecycleEvent.SUPERVISOR_TICK: "a live session was examined; also what is said of one between its other events: "
    "who waits for a person, what became of a question, a canary",
    LifecycleEvent.CAPABILITY_DEGRADED: "what was claimed or negotiated is weaker, or back",
    LifecycleEvent.RECEIPT_EMITTED: "a receipt is there to be read; it is the receipt stream itself and has none",
    LifecycleEvent.RECEIPT_GAP_DETECTED: "numbers are missing and cannot be made up",
}
"""What each event says, in the order of a session's life."""


def facts_of(event: LifecycleEvent) -> tuple[Fact, ...]:
    """Return the facts of an event's receipts, those that any receipt may carry aside."""
    return tuple(fact for fact in _OWN if event in fact.events)


def every_fact() -> tuple[Fact, ...]:
    """Return all facts; a key that means something else on other events comes several times."""
    return (*COMMON, *_OWN)
