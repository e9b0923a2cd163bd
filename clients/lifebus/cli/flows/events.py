"""`lifebus flow logs --events`: what happened to a run, by the standard names of events."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET

from lifebus.cli.terminal import clean, paint, put, put_json
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus.loa.log_events import checkpoint_event, in_order, standard_event
from lifebus.loa.types import LoaEvent
from lifebus_contract import InvalidRequest

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.runs import RunInfo


async def read_events(bus: "Bus", run: "RunInfo", phase: str | None) -> tuple[LoaEvent, ...]:
    """Return the events of a run and its checkpoints in order; with a phase only those about it.

    Raises:
        InvalidRequest: the run has no such phase (`no_step`).
    """
    names = [one.step_id for one in run.steps]
    if phase is not None and phase not in names:
        raise InvalidRequest(f"the run has no `{phase[:64]}`; it has {', '.join(names)[:512]}", code="no_step")
    events = [standard_event(one) for one in await bus.flows.events(run.run_id)]
    events += [one async for one in _checkpoints(bus, run)]
    return in_order(one for one in events if phase is None or one.phase == phase)


async def _checkpoints(bus: "Bus", run: "RunInfo") -> AsyncIterator[LoaEvent]:
    """Yield the events of the checkpoints that phases of the run have saved; without its root there are none."""
    try:
        found = await bus.checkpoints.list(kind=LOA_CHECKPOINT, root=run.root)
    except InvalidRequest:  # the root is gone, and with it what tells its project from others
        return
    for one in found:
        if one.run_id == run.run_id:
            yield checkpoint_event(one.checkpoint_id, one.name, one.created_at)


def put_events(events: Iterable[LoaEvent], *, json: bool) -> None:
    """Print events, one a line; as JSON with every key."""
    for event in events:
        phase = None if event.phase is UNSET else event.phase
        data = {} if event.data is UNSET else event.data
        if json:
            put_json({"event": event.event, "timestamp": event.timestamp, "phase": phase, "data": data}, indent=0)
        else:
            facts = " ".join(f"{name}={_text(value)}" for name, value in data.items())
            name = paint(clean(event.event), "bold")
            put(f"{event.timestamp}  {name}  {clean(phase or '-')}  {clean(facts)}".rstrip())


def _text(value: object) -> str:
    from msgspec.json import encode  # noqa: PLC0415

    return value if isinstance(value, str) else encode(value).decode()
