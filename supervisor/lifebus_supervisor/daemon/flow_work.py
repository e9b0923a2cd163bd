"""Flows and the inbox: runs, and the questions that they and others ask people (a `parts.Work`)."""

import time
from collections.abc import Mapping
from functools import partial

from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.routing.bus import EventBus
from lifebus_supervisor.api.flows import FlowVerbs
from lifebus_supervisor.api.inbox import InboxVerbs
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.runtime.composing import compose_runs, recover_runs, start_runs, watch_contexts
from lifebus_supervisor.runtime.inbox.composing import start_inbox
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.runtime.limits.live_context import contexts_of_tries
from lifebus_supervisor.runtime.run_table import RunTable
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.processes.once import Commands


class FlowWork(Struct, frozen=True, kw_only=True):
    """The parts; `tasks` owns what runs beside."""

    settings: Settings
    tasks: TaskGroup
    inbox: Inbox
    runs: RunTable

    async def load(self) -> None:
        """Read what the broker before has left (`Work.load`)."""
        await self.inbox.open()
        await recover_runs(self.runs)

    async def start(self, *, at_start: bool) -> None:  # noqa: ARG002  as the protocol has it
        """Start everything (`Work.start`)."""
        settings, tasks = self.settings, self.tasks
        await start_inbox(settings.inbox, settings.state_dir, self.inbox, Commands(tasks).run_once, tasks)
        await start_runs(self.runs, tasks)

    def handlers(self) -> Handlers:
        """Return what serves the verbs."""
        return {
            **InboxVerbs(self.inbox).handlers(),
            **FlowVerbs(self.runs, self.settings.state_dir).handlers(),
        }

    def counters(self) -> Mapping[str, int]:
        """Return what `status` says of questions."""
        return {"questions_open": self.inbox.open_count, "notifications_failing": self.inbox.failing_count}

    def stop(self) -> None:
        """Begin nothing any more."""
        self.runs.engine.stop()

    @property
    def is_finishing(self) -> bool:
        """Whether something of a run is not durable yet."""
        return self.runs.is_finishing

    def close(self) -> None:
        """Let go of every root."""
        self.runs.close()


def compose_flow_work(settings: Settings, bus: EventBus, supervisor: Supervisor, tasks: TaskGroup) -> FlowWork:
    """Make the parts; nothing of them runs yet."""
    inbox = Inbox(bus.ledger.journal, lambda: time.time_ns() // 1_000_000)
    runs = compose_runs(settings, bus, inbox, tasks, partial(contexts_of_tries, supervisor.monitors))
    supervisor.after_pass = watch_contexts(runs).look
    return FlowWork(settings=settings, tasks=tasks, inbox=inbox, runs=runs)
