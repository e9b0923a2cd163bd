"""Runs that a command executes itself: `lifebus flow run --here` and `lifebus flow resume --here`."""

import os
import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifebus.cli.arguments import ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.flows.common import exit_of, find_run, submitted
from lifebus.cli.flows.questions import QuestionPrinter, asked_ids
from lifebus.cli.flows.run_printer import RunPrinter
from lifebus.cli.terminal import say
from lifebus_contract.runs import RunInfo, RunStatus

if TYPE_CHECKING:
    import anyio

    from lifebus.client import Bus
    from lifebus_contract.flows import FlowDefinition
    from lifebus_supervisor.runtime.ports import Progress
    from lifebus_supervisor.runtime.run_records import RunRecord
    from lifebus_supervisor.runtime.run_state import RunState


def run_here(flow: "FlowDefinition", run_id: str, file: Path, connection: ConnectionOptions) -> ExitCode:
    """Begin a run and execute it in this process; return its exit code."""

    async def work(bus: "Bus") -> ExitCode:
        with closing(await _lock(bus, flow.root, run_id)):
            owner = _owner()
            begun = await submitted(bus, flow, run_id, file, owner)
            return await _execute(bus, begun, owner, RunPrinter(flow, json=connection.json))

    return on_bus(connection, work, lasting=True)


def resume_here(name: str | None, connection: ConnectionOptions) -> ExitCode:
    """Go on with a run that nobody runs, in this process; return its exit code."""

    async def work(bus: "Bus") -> ExitCode:
        run_id = await find_run(bus, name)
        found = await bus.flows.show(run_id)
        with closing(await _lock(bus, found.definition.root, run_id)):
            seen = None if found.run.status.is_over else found.run
            return await _execute(
                bus, found.run, _owner(), RunPrinter(found.definition, json=connection.json, seen=seen)
            )

    return on_bus(connection, work, lasting=True)


async def _lock(bus: "Bus", root: str, run_id: str) -> Any:
    """Hold the lock of a root, which the broker asks for before it lets anybody run there.

    Raises:
        StateConflict: somebody holds it (`root_taken`).
    """
    import anyio.to_thread  # noqa: PLC0415

    from lifebus_supervisor.runtime.root_lock import RootLock  # noqa: PLC0415

    # The broker's own directory: settings by flag are not known here.
    state_dir = Path((await bus.status()).state_dir)
    holder = f"run `{run_id}` of `lifebus flow --here` (pid {os.getpid()})"
    return await anyio.to_thread.run_sync(RootLock.take, state_dir, root, holder)


def _owner() -> str:
    # Another command of the same number may come later: a run's owner is one process.
    return f"here-{os.getpid()}-{secrets.token_hex(4)}"


async def _execute(bus: "Bus", begun: RunInfo, owner: str, printer: RunPrinter) -> ExitCode:
    """Run a run that is ours to its end, or until Ctrl-C or SIGTERM; of one that is over it is told how it ended."""
    if begun.status.is_over:
        printer.announce(begun, "it is over")
        printer.show(begun)
        printer.end(begun)
        return exit_of(begun)
    import anyio  # noqa: PLC0415

    from lifebus_supervisor.runtime.clocks import wall_clocks  # noqa: PLC0415
    from lifebus_supervisor.runtime.remote.executor import RemoteExecutor  # noqa: PLC0415
    from lifebus_supervisor.runtime.run_info import info_of  # noqa: PLC0415
    from lifebus_supervisor.runtime.tries import Tries  # noqa: PLC0415

    stop, caught = anyio.Event(), list[int]()

    questions = QuestionPrinter(json=printer.json)

    def show(state: "RunState") -> None:
        run = info_of(state)
        printer.show(run)
        if asked_ids(run):
            tasks.start_soon(questions.show, bus, run)

    state_dir = Path((await bus.status()).state_dir)
    executor = RemoteExecutor(BusPort(bus), Tries(state_dir, os.environ), wall_clocks(), owner, show)
    printer.announce(begun, "it runs here; Ctrl-C interrupts it")
    ended: list[RunInfo] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, stop, caught, tasks.cancel_scope.cancel)
        ended.append(info_of(await executor.run(begun.run_id, stop)))
        tasks.cancel_scope.cancel()
    if not ended:  # killed; the broker sees by the lock of the root that nobody runs it any more
        return ExitCode.INTERRUPTED
    (run,) = ended
    printer.end(run)
    if not run.status.is_over and run.status is not RunStatus.INTERRUPTED:
        say(f"`{run.owner}` runs it by now")
        return ExitCode.RUN_INTERRUPTED
    return ExitCode.INTERRUPTED if signal.SIGINT in caught and not run.status.is_over else exit_of(run)


async def _watch_signals(stop: "anyio.Event", caught: list[int], kill: Callable[[], None]) -> None:
    """Set `stop` on the first Ctrl-C or SIGTERM; the second one kills what has not ended."""
    import anyio  # noqa: PLC0415

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if caught:
                kill()
                return
            caught.append(number)
            say("ending what runs; once more kills it", color="yellow")
            stop.set()


class BusPort:
    """A broker's table of runs, by its verbs (`lifebus_supervisor.runtime.ports.RunPort`)."""

    def __init__(self, bus: "Bus") -> None:
        self._bus = bus

    async def claim(self, run_id: str, owner: str) -> "Progress":
        """Become the one that runs it; returns all of its records."""
        return await self._whole(run_id, owner, 0, await self._bus.flows.claim(run_id, owner))

    async def record(self, run_id: str, owner: str, after_number: int, records: "Sequence[RunRecord]") -> "Progress":
        """Append records behind a number; without records, or where others were faster, return what they recorded."""
        from msgspec import to_builtins  # noqa: PLC0415

        plain: list[dict[str, Any]] = [to_builtins(one) for one in records]
        found = await self._bus.flows.record(run_id, owner, after_number, plain)
        return await self._whole(run_id, owner, after_number, found)

    async def wait(self, run_id: str, after_number: int, wait_s: float) -> RunInfo:
        """Return how the run stands once there is more than that, after `wait_s` at the latest."""
        return await self._bus.flows.wait(run_id, after_number, wait_s)

    async def _whole(self, run_id: str, owner: str, after: int, found: Any) -> "Progress":
        """Return an answer with all records that it announces."""
        from msgspec import convert  # noqa: PLC0415

        from lifebus_supervisor.runtime.ports import Progress  # noqa: PLC0415
        from lifebus_supervisor.runtime.run_records import RunRecord  # noqa: PLC0415

        plain: list[dict[str, Any]] = [*found.records]
        while plain and after + len(plain) < found.number:
            more = await self._bus.flows.record(run_id, owner, after + len(plain))
            if not more.records:
                break
            plain += more.records
        records = tuple(convert(one, RunRecord) for one in plain)
        return Progress(number=found.number, appended=found.appended, records=records)
