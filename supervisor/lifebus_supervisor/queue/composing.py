"""The queue of a daemon, put together, recovered and started."""

import os
from collections.abc import Callable, Sequence

from anyio.abc import TaskGroup

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.signals.log import SignalLog
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.queue.command_jobs import CommandJobs, command_type
from lifebus_supervisor.queue.engine import QueueEngine
from lifebus_supervisor.queue.ports import JobRunner, JobType, SuggestedRequests, TranscriptTargets
from lifebus_supervisor.queue.recovery import go_on
from lifebus_supervisor.queue.table import JobTable
from lifebus_supervisor.queue.targets import TargetSettler
from lifebus_supervisor.runtime.clocks import Clocks, wall_clocks


def compose_queue(  # noqa: PLR0913, PLR0917  all that it is made of
    settings: Settings,
    bus: EventBus,
    signals: SignalLog,
    tasks: TaskGroup,
    transcripts: TranscriptTargets | None = None,
    suggestions: SuggestedRequests | None = None,
    further: Sequence[JobType] = (),
    clocks: Clocks | None = None,
    commands: Callable[[JobRunner], JobRunner] = lambda runner: runner,
) -> JobTable:
    """Return the table of a bus's jobs; nothing of it runs yet.

    `further` are types beside `command`; `transcripts` is where supplemental targets are, `suggestions` where suggested
    requests are.  `commands` puts around who does commands what else their ends lead to.
    """
    runner = commands(CommandJobs(settings.state_dir, os.environ))
    known = (command_type(runner), *further)
    types = {one.name: one for one in known}
    clocks = clocks or wall_clocks()

    def runner_of(name: str) -> JobRunner | None:
        kind = types.get(name)
        return None if kind is None else kind.runner

    journal = bus.ledger.journal
    engine = QueueEngine(journal, signals, runner_of, clocks, tasks)
    settler = TargetSettler(transcripts, clocks.now_ms, suggestions)
    settler.put = engine.put
    engine.before_attempt = settler.begin
    return JobTable(journal, engine, types, settings.queue, bus.ids.make, settler)


def start_queue(table: JobTable, tasks: TaskGroup) -> None:
    """Go on with the jobs of the broker before, and begin those that wait, where the queue is on."""
    if not table.settings.enabled:
        return
    tasks.start_soon(table.settler.run)
    go_on(table, tasks)
    table.turns.start()
