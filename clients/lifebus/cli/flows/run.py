"""`lifebus flow run` and `lifebus flow resume`: a run begun or gone on with, and followed to its end."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.flows.check import load_flow, say_warnings
from lifebus.cli.flows.common import exit_of, find_run, person, submitted
from lifebus.cli.flows.here import resume_here, run_here
from lifebus.cli.flows.questions import QuestionPrinter, open_questions
from lifebus.cli.flows.run_printer import RunPrinter
from lifebus.cli.terminal import say
from lifebus_contract import BrokerBusy, DeadlineExceeded, StateConflict, TransportError
from lifebus_contract.runs import RunStatus

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.runs import RunInfo

_AGAIN_S: Final = 0.3
_PACE_S: Final = 0.05
"""Between two looks at a run; what happens meanwhile is told as one."""

_GONE: Final = (TransportError, DeadlineExceeded, BrokerBusy)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """Until when a run is followed."""

    detach: Annotated[bool, Parameter(name=("--detach", "-d"))] = False
    "Return as soon as the run is durable, and print its id."
    until_asked: bool = False
    "Return with exit code 4 once nothing runs and a person is asked."


DEFAULT_FOLLOW: Final = FollowOptions()
"""To its end."""


def run(
    file: Path,
    /,
    *,
    root: Path | None = None,
    run_id: Annotated[str | None, Parameter(name="--id")] = None,
    here: bool = False,
    follow: FollowOptions = DEFAULT_FOLLOW,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Run a flow, and follow it to its end; Ctrl-C leaves it running in the broker.

    Exit code 0: completed, 1: failed, 3: aborted, 4: a person is asked (--until-asked), 5: interrupted, nobody runs it,
    65: the file has mistakes, all of which are named, 130: Ctrl-C.

    Args:
        file: The flow file.
        root: Another root than the one in the file.
        run_id: The id of the run; the same id with the same flow is the same run.
        here: This command runs the phases itself; Ctrl-C ends them, and `lifebus flow resume` goes on.
        follow: Until when it is followed.
        connection: Where the broker is, and the form of the answer.
    """
    from lifebus.flows.runs import make_run_id  # noqa: PLC0415

    flow = load_flow(file, root)
    say_warnings(file, flow)
    name = run_id or make_run_id(flow.name)
    if here:
        return run_here(flow, name, file, connection)

    found: list[str] = []

    async def begin(bus: "Bus") -> ExitCode:
        found[:] = [name]
        begun = await submitted(bus, flow, name, file)
        return await follow_run(bus, begun, RunPrinter(flow, json=connection.json), follow)

    return _followed(lambda: on_bus(connection, begin, lasting=not follow.detach), found)


def resume(
    name: Annotated[str | None, Parameter(name="RUN")] = None,
    /,
    *,
    here: bool = False,
    follow: FollowOptions = DEFAULT_FOLLOW,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Continue a run whose owner is gone, and follow it; if it is over, say how it ended.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow; default: the newest run.
        here: This command runs the phases itself.
        follow: Until when it is followed.
        connection: Where the broker is, and the form of the answer.
    """
    found: list[str] = []
    if here:
        return resume_here(name, connection)

    async def go_on(bus: "Bus") -> ExitCode:
        found[:] = [await find_run(bus, name)]
        before = await bus.flows.show(found[0])
        seen = None if before.run.status.is_over else before.run
        printer = RunPrinter(before.definition, json=connection.json, seen=seen)
        return await follow_run(bus, await _resumed(bus, before.run), printer, follow)

    return _followed(lambda: on_bus(connection, go_on, lasting=not follow.detach), found)


async def _resumed(bus: "Bus", run: "RunInfo") -> "RunInfo":
    """Have the broker go on with a run; one that is over stays as it is."""
    try:
        return run if run.status.is_over else await bus.flows.resume(run.run_id, by=person())
    except StateConflict as fault:
        if fault.code != "run_over":  # it may have ended since we looked
            raise
    return await bus.flows.wait(run.run_id)


def _followed(work: Callable[[], ExitCode], found: list[str]) -> ExitCode:
    """Return what the work returns; on Ctrl-C say that the run goes on without us."""
    try:
        return work()
    except KeyboardInterrupt:
        if found:
            say(f"\n{found[0]} goes on in the broker, where it has begun")
            say(f"  `lifebus flow resume {found[0]}` follows it, `lifebus flow abort {found[0]}` ends it", color="dim")
        return ExitCode.INTERRUPTED


async def follow_run(bus: "Bus", run: "RunInfo", printer: "RunPrinter", options: FollowOptions) -> ExitCode:
    """Show what happens until the run is over, or as the options say; return the exit code."""
    if options.detach:
        printer.show_id(run)
        return ExitCode.OK
    questions = QuestionPrinter(json=printer.json)
    printer.announce(run, "Ctrl-C leaves it running")
    printer.show(run)
    await questions.show(bus, run)
    while not await _is_enough(bus, run, options):
        looked = time.monotonic()
        run = await _next(bus, run)
        printer.show(run)
        await questions.show(bus, run)
        if not run.status.is_over:
            # Each look has the whole run: a flow of many short phases must not be slowed by who follows it.
            await asyncio.sleep(looked + _PACE_S - time.monotonic())
    printer.end(run)
    return exit_of(run)


async def _is_enough(bus: "Bus", run: "RunInfo", options: FollowOptions) -> bool:
    """Whether the run is over, or waits for a person as the options say."""
    if not options.until_asked or run.status is not RunStatus.WAITING:
        return run.status.is_over
    return bool(await open_questions(bus, run))  # a question that was just answered is still the run's for a moment


async def _next(bus: "Bus", run: "RunInfo") -> "RunInfo":
    """Return how the run stands after its next change, across restarts of its broker."""
    while True:
        try:
            found = await bus.flows.wait(run.run_id, run.number)
        except _GONE:
            # The run is durable and goes on with the next broker; whoever follows it is told by `on_bus`.
            await asyncio.sleep(_AGAIN_S)
        else:
            if found.number != run.number or found.status is not run.status:
                return found
