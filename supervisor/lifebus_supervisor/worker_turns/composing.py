"""The turns of workers of a daemon, put together."""

import time

from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_supervisor.actions.worker_answers import WorkerAnswers
from lifebus_supervisor.app_server.steering import AppServerSteering
from lifebus_supervisor.app_server.worker_orders import WorkerOrders
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.queue.ports import JobType
from lifebus_supervisor.worker_turns.instructions import instruction_type
from lifebus_supervisor.worker_turns.ports import SystemMarks
from lifebus_supervisor.worker_turns.runner import InstructionJobs
from lifebus_supervisor.worker_turns.turn_answers import TurnAnswers


class WorkerTurns(Struct, frozen=True, kw_only=True):
    """The type of jobs that are turns of workers, and where their ends are reported."""

    type: JobType
    answers: TurnAnswers


def compose_worker_turns(
    settings: QueueSettings, steering: AppServerSteering, marks: SystemMarks, answers: WorkerAnswers, tasks: TaskGroup
) -> WorkerTurns:
    """Return the type of jobs; `answers.record` is to be set to the queue that it stands in."""
    turns = TurnAnswers()
    jobs = InstructionJobs(
        WorkerOrders(steering),
        marks,
        turns,
        answers,
        tasks,
        lambda: time.time_ns() // 1_000_000,
        settings.worker_sandbox,
    )
    return WorkerTurns(type=instruction_type(jobs, settings.time_limit_ms), answers=turns)
