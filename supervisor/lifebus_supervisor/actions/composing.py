"""The actions of a daemon, put together."""

import time

from anyio.abc import TaskGroup

from lifebus_broker.ports import Journal
from lifebus_supervisor.actions.actions import Actions
from lifebus_supervisor.actions.keys import ActionKeys
from lifebus_supervisor.actions.performing import Performers
from lifebus_supervisor.actions.ports import AppServerControl
from lifebus_supervisor.extensions.ports import JobQueue
from lifebus_supervisor.transcripts.composing import TranscriptParts


def compose_actions(
    journal: Journal,
    transcripts: TranscriptParts,
    jobs: JobQueue,
    tasks: TaskGroup,
    control: AppServerControl | None = None,
) -> Actions:
    """Return what does actions; without `control` app-servers are not reached."""
    performers = Performers(transcripts=transcripts.store, sessions=transcripts.marks, jobs=jobs, control=control)
    return Actions(ActionKeys(journal, lambda: time.time_ns() // 1_000_000), performers, tasks)
