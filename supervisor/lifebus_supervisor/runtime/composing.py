"""The runs of a daemon, put together, recovered and started."""

import os
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_broker.routing.bus import EventBus
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.runtime.bus.failure_client import FailureClient
from lifebus_supervisor.runtime.bus.receipt_emitter import ReceiptEmitter
from lifebus_supervisor.runtime.clocks import Clocks, wall_clocks
from lifebus_supervisor.runtime.limits.accounts import MeasureContexts, unmeasured
from lifebus_supervisor.runtime.limits.context_watch import ContextWatch
from lifebus_supervisor.runtime.ports import Questions, TryRunner
from lifebus_supervisor.runtime.recovery import go_on, load_runs
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_journal import RunJournal
from lifebus_supervisor.runtime.run_table import RunTable
from lifebus_supervisor.runtime.tries import Tries

_OWNERS_S: Final = 2.0
"""How often the broker looks whether the clients are still there that run runs."""


def compose_runs(  # noqa: PLR0917  all that it is made of
    settings: Settings,
    bus: EventBus,
    questions: Questions,
    tasks: TaskGroup,
    measure_contexts: MeasureContexts = unmeasured,
    clocks: Clocks | None = None,
    runner: TryRunner | None = None,
) -> RunTable:
    """Return the table of a bus's runs; nothing of it runs yet.

    `measure_contexts` says how full the contexts of tries are by telemetry.
    """
    engine = RunEngine(
        RunJournal(bus.ledger.journal),
        questions,
        runner or Tries(settings.state_dir, os.environ),
        ReceiptEmitter(bus),
        clocks or wall_clocks(),
        tasks,
    )
    table = RunTable(engine, settings.state_dir, bus.ids.make)
    table.on_active = FailureClient(bus).need
    table.accounts.measure_contexts = measure_contexts
    return table


def watch_contexts(table: RunTable) -> ContextWatch:
    """Return what looks at the contexts of the tries of all runs."""
    return ContextWatch(table.engine, table.runs, table.accounts.measure_contexts)


async def recover_runs(table: RunTable) -> None:
    """Read the runs of the broker before, so that they are listed before anybody asks.

    Raises:
        LifebusError: the journal cannot be read.
    """
    await load_runs(table, table.engine.journal)


async def start_runs(table: RunTable, tasks: TaskGroup) -> None:
    """Go on with the runs of the broker before, and watch over those that clients run."""
    await go_on(table)
    tasks.start_soon(_watch_owners, table)


async def _watch_owners(table: RunTable) -> None:
    while True:
        await anyio.sleep(_OWNERS_S)
        if table.has_foreign:
            await table.check_owners()
