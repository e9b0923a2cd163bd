"""`lifebus serve`: be a callback client with a command."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULTS, Connecting, UsageError, parse_choice
from lifebus.cli.bus.command import AS_IT_IS, Command, Running, cancel_on_signal, spec_of
from lifebus.cli.connection import on_bus
from lifebus.cli.contract.negotiate import Wishes, parse_requirements
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import say
from lifebus_contract import LifecycleEvent

if TYPE_CHECKING:
    from lifebus.client import Bus

_MOST_WORKERS: Final = 64


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Wanting:
    """Which events are served, and what they require."""

    event: tuple[str, ...] = ()
    "An event to be asked about, e.g. frame.opening."
    adapter: tuple[str, ...] = ()
    "Only events of this adapter."
    require: Wishes = ()
    "A capability that must be had."
    prefer: Wishes = ()
    "A capability that would be better."
    workers: int = 2
    "How many children at once: 2 unless told."


_NOTHING: Final = Wanting()


def serve(
    *command: Command,
    wanting: Wanting = _NOTHING,
    running: Running = AS_IT_IS,
    connecting: Connecting = DEFAULTS,
) -> ExitCode:
    """Answer dispatches with a command, e.g. `lifebus serve --event frame.opening -- ./client`, until told to stop.

    The command reads dispatch envelopes on stdin and writes responses on stdout. It outlives restarts of the broker.

    Args:
        command: The command and its arguments; no shell reads them.
        wanting: Which events are served.
        running: How the command is run.
        connecting: Where the broker is.
    """
    if not wanting.event:
        raise UsageError("--event: which events is the command to be asked about? `lifebus events` lists them")
    if not 1 <= wanting.workers <= _MOST_WORKERS:
        raise UsageError(f"--workers: between 1 and {_MOST_WORKERS}")
    known = [event.value for event in LifecycleEvent]
    events = [LifecycleEvent(parse_choice("--event", event, known)) for event in wanting.event]
    requirements = tuple(parse_requirements(wanting.require, wanting.prefer, ()))
    spec, kind, seconds = spec_of(command, running), running.kind, running.seconds

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus_supervisor.daemon.command_clients import answering, invoker_of  # noqa: PLC0415
        from lifebus_transports.processes import Commands  # noqa: PLC0415

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            invoker = invoker_of(spec, kind, wanting.workers, Commands(tasks), tasks)
            await bus.serve(
                events,
                answering(invoker, seconds),
                adapters=wanting.adapter,
                requirements=requirements,
                deadline=seconds,
                on_ready=lambda: say(f"serving as {running.name_for(command)}; Ctrl-C stops", color="dim"),
            )
        return ExitCode.OK

    return on_bus(connecting, work, client_id=running.name_for(command))
