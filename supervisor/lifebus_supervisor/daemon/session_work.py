"""What works on sessions and with them: app-servers, extensions, jobs, actions, transcripts (a `parts.Work`)."""

import time
from collections.abc import Mapping
from functools import partial

from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.signals.log import SignalLog
from lifebus_supervisor.actions.actions import Actions
from lifebus_supervisor.actions.composing import compose_actions
from lifebus_supervisor.actions.worker_answers import AnsweringCommands, WorkerAnswers
from lifebus_supervisor.api.extensions import ExtensionVerbs
from lifebus_supervisor.api.jobs import JobVerbs
from lifebus_supervisor.api.observations import ObservationVerbs, SteeringVerbs
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.api.transcripts import TranscriptVerbs
from lifebus_supervisor.app_server.intake import AppServerIntake
from lifebus_supervisor.app_server.recorder import AppServerRecorder
from lifebus_supervisor.app_server.steering import AppServerSteering
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.extensions.composing import compose_extensions, is_hidden
from lifebus_supervisor.extensions.extensions import Extensions
from lifebus_supervisor.extensions.passes import Reach
from lifebus_supervisor.extensions.session_settings import KnownSettings
from lifebus_supervisor.queue.composing import compose_queue, start_queue
from lifebus_supervisor.queue.recovery import load_jobs
from lifebus_supervisor.queue.table import JobTable
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.synthesis.extension_sink import ExtensionSink
from lifebus_supervisor.synthesis.synthesizer import Synthesizer
from lifebus_supervisor.transcripts.composing import TranscriptParts, compose_transcripts
from lifebus_supervisor.transcripts.session_marks import SessionKinds
from lifebus_supervisor.worker_turns.composing import compose_worker_turns
from lifebus_supervisor.worker_turns.turn_answers import TurnAnswers


class SessionWork(Struct, frozen=True, kw_only=True):
    """The parts; `tasks` owns what runs beside."""

    tasks: TaskGroup
    steering: AppServerSteering
    actions: Actions
    extensions: Extensions
    queue: JobTable
    transcripts: TranscriptParts
    synthesis: Synthesizer
    worker_turns: TurnAnswers
    observations: ObservationVerbs

    async def load(self) -> None:
        """Read what the broker before has left (`Work.load`)."""
        await self.transcripts.load()
        await load_jobs(self.queue)

    async def start(self, *, at_start: bool) -> None:
        """Start everything (`Work.start`).

        Extensions are loaded at the start of a broker, and by a reload: roots that came later wait for that.
        """
        await self.extensions.start(self.tasks, loads=at_start)
        start_queue(self.queue, self.tasks)
        self.transcripts.start(self.tasks)
        self.tasks.start_soon(self.synthesis.run)

    def handlers(self) -> Handlers:
        """Return what serves the verbs."""
        transcripts = self.transcripts
        return {
            **self.observations.handlers(),
            **SteeringVerbs(self.steering, self.actions).handlers(),
            **ExtensionVerbs(self.extensions).handlers(),
            **JobVerbs(self.queue).handlers(),
            **TranscriptVerbs(transcripts.store, transcripts.suggestions, self.synthesis).handlers(),
        }

    def counters(self) -> Mapping[str, int]:
        """Return what `status` says of jobs and observations."""
        return {
            "jobs_open": self.queue.indexes.open_count,
            "jobs_running": self.queue.turns.running,
            **self.observations.counters(),
        }

    def stop(self) -> None:
        """Begin no job any more, and ask those that run to end."""
        self.queue.turns.stop()

    @property
    def is_finishing(self) -> bool:
        """Whether a job runs, or an action is being done."""
        # A job that is asked to end is queued again, and loses no attempt.
        return bool(self.queue.turns.running) or self.actions.is_finishing

    def close(self) -> None:
        """Do nothing: it holds nothing but memory."""


def compose_session_work(
    settings: Settings,
    bus: EventBus,
    signals: SignalLog,
    supervisor: Supervisor,
    tasks: TaskGroup,
) -> SessionWork:
    """Make the parts; nothing of them runs yet."""
    transcripts = compose_transcripts(settings, bus.ledger, signals, bus.registry, bus.fanout)
    answers = WorkerAnswers(transcripts.store, _now_ms)
    steering = AppServerSteering(time.monotonic)
    turns = compose_worker_turns(settings.queue, steering, transcripts.marks, answers, tasks)
    queue = compose_queue(
        settings,
        bus,
        signals,
        tasks,
        transcripts.store,
        transcripts.suggestions,
        further=[turns.type],
        commands=partial(AnsweringCommands, answers=answers),
    )
    turns.answers.record = queue.answered
    actions = compose_actions(bus.ledger.journal, transcripts, queue, tasks, control=steering)
    reach = Reach(executor=actions, jobs=queue, settings=KnownSettings(signals, transcripts.marks))
    extensions = _compose_extensions(settings, bus, signals, reach, transcripts.store.marks, tasks)
    # A worker acts by the extensions and the actions, which need the queue that the worker stands in.
    answers.executor, answers.agents = actions, extensions
    synthesis = Synthesizer(bus.ledger.journal, transcripts.filler, transcripts.suggestions, bus.ids.make)
    synthesis.sink = ExtensionSink(extensions, _now_ms)
    recorder = AppServerRecorder(bus, supervisor.monitors, supervisor.environment)
    supervisor.deferred = recorder
    intake = AppServerIntake(bus, supervisor, recorder)
    return SessionWork(
        tasks=tasks,
        steering=steering,
        actions=actions,
        extensions=extensions,
        queue=queue,
        transcripts=transcripts,
        synthesis=synthesis,
        worker_turns=turns.answers,
        observations=ObservationVerbs(signals, intake, bus.registry, transcripts.store, turns.answers, steering.gone),
    )


def _compose_extensions(  # noqa: PLR0917  a step of the composition
    settings: Settings, bus: EventBus, signals: SignalLog, reach: Reach, kinds: SessionKinds, tasks: TaskGroup
) -> Extensions:
    """Make the extensions, which reach so much of the broker."""
    extensions = compose_extensions(
        settings.extensions,
        settings.runtime_dir,
        journal=bus.ledger.journal,
        fanout=bus.fanout,
        signals=signals,
        tasks=tasks,
    )
    extensions.around = reach
    extensions.hidden = partial(is_hidden, kinds)
    return extensions


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
