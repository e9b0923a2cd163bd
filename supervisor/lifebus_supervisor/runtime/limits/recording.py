"""What clients have counted and kept of a run, as records.  Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import CostRecord, LogEvent
from lifebus_supervisor.runtime.run_records import CostRecorded, Logged, RunRecord
from lifebus_supervisor.runtime.run_state import RunState, require_step

MAX_LOGGED: Final = 10_000
"""Most events that clients may have kept in the log of one run."""

MAX_LOGGED_BYTES: Final = 8_192
"""Largest data of one of them, as JSON."""


def counted(cost: CostRecord, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the record of calls to a model; nothing where the same is counted already.

    Raises:
        InvalidRequest: ``no_step``; ``costs_full``: a run cannot count so much.
    """
    require_step(state, cost.step_id)
    if not state.limits.costs.takes(cost):
        raise InvalidRequest("the run has more calls or tokens than can be counted", code="costs_full")
    return () if state.limits.costs.knows(cost) else (CostRecorded(at_ms=now_ms, cost=cost),)


def logged(event: LogEvent, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the record of an event that a client wants kept.

    Raises:
        InvalidRequest: ``no_step``; ``log_full``: there are too many, or this one is too large.
    """
    if event.step_id is not None:
        require_step(state, event.step_id)
    size = len(msgspec.json.encode(event.data))
    if size > MAX_LOGGED_BYTES:
        raise InvalidRequest(f"the data have {size} bytes, {MAX_LOGGED_BYTES} are allowed", code="log_full")
    if state.logged >= MAX_LOGGED:
        raise InvalidRequest(f"the log of the run has its {MAX_LOGGED} events", code="log_full")
    return (Logged(at_ms=now_ms, event=event),)
