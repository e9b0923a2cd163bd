"""Beginnings and ends of waits that are handed to the ledger and not on record yet.  Pure.

Hooks and passes decide beside each other: who decides while another one's word is on its way has to know of it, or one
wait would end twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from lifebus_broker.state.telemetry_keys import FRAME, WAITING, WAITING_FOR, WAITING_ID, WAITING_SINCE
from lifebus_broker.state.waiting import ENDED, Waits, waits_told
from lifebus_contract.views import Wait

UNDER_WAY_S: Final = 5.0
"""How long a word may be on its way, in seconds: what did not arrive by then is found again."""

_SAME: Final = (WAITING, WAITING_FOR, FRAME, WAITING_ID, WAITING_SINCE)


def word_of(facts: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what makes two reports of a beginning or of an end the same."""
    return tuple(facts.get(key) for key in _SAME)


class WaitUnderWay(Struct, frozen=True, kw_only=True):
    """The facts of one beginning or end, and until when it counts, in monotonic seconds."""

    facts: Mapping[str, Any]
    until: float


Underway = tuple[WaitUnderWay, ...]
"""What is on its way, the oldest first."""


def handed_over(known: Underway, told: Sequence[Mapping[str, Any]], now: float) -> Underway:
    """Take the facts of what is handed to the ledger; only those of waits count, and what is late no more."""
    kept = still_under_way(known, now)
    return (*kept, *(WaitUnderWay(facts=facts, until=now + UNDER_WAY_S) for facts in told if WAITING in facts))


def still_under_way(known: Underway, now: float) -> Underway:
    """Return what may still arrive."""
    return tuple(one for one in known if now < one.until)


def arrived(known: Underway, facts: Mapping[str, Any]) -> Underway:
    """Take that a receipt has arrived."""
    found = next((one for one in known if word_of(one.facts) == word_of(facts)), None)
    return known if found is None else tuple(one for one in known if one is not found)


def with_under_way(waits: Waits, known: Underway) -> Waits:
    """Return what a session waits for, as if everything had arrived."""
    for one in known:
        if one.facts[WAITING] == ENDED:
            # By its beginning: another one may have taken its place meanwhile.
            waits = tuple(wait for wait in waits if not _is_of(one.facts, wait))
        else:
            waits = waits_told(waits, one.facts, at_ms=0)
    return waits


def _is_of(facts: Mapping[str, Any], wait: Wait) -> bool:
    own = (wait.waiting_for, wait.frame_id, wait.request, wait.since_ms)
    return own == tuple(facts.get(key) for key in (WAITING_FOR, FRAME, WAITING_ID, WAITING_SINCE))
