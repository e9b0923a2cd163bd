"""Lifecycle events as programs name them."""

import difflib
from collections.abc import Iterable
from contextlib import suppress

from lifebus_contract import InvalidRequest, LifecycleEvent


def events_of(names: Iterable[LifecycleEvent | str]) -> tuple[LifecycleEvent, ...]:
    """Return the events that some names stand for.

    Raises:
        InvalidRequest: there is no such event (``unknown_event``); it says which was probably meant.
    """
    return tuple(map(event_of, names))


def event_of(name: LifecycleEvent | str) -> LifecycleEvent:
    """Return the event of a name.

    Raises:
        InvalidRequest: there is no such event (``unknown_event``); it says which was probably meant.
    """
    # Tried first: nearly all names are known, and every request has one.
    with suppress(ValueError):
        return LifecycleEvent(name)
    known = [event.value for event in LifecycleEvent]
    # Bounded: the comparison takes time that grows with the square of the length.
    short = str(name)[:64]
    near = difflib.get_close_matches(short, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
    raise InvalidRequest(f"there is no event `{short}`; {hint}", code="unknown_event", field="$.event")
