"""One attempt of a job in this process: it has a time limit, can be asked to end, and ends after its grace."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio
import structlog

from lifebus_contract import LifebusError
from lifebus_supervisor.queue.ports import JobRunner
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.rules.attempts import AttemptEnd, StopReason

FORCE_S: Final = 3.0
"""Seconds beyond its grace after which an attempt is cancelled: a runner ends by itself what it has started."""

_log = structlog.get_logger("lifebus.queue")


class Attempt:
    """An attempt.  `stop` says why it was asked to end, `forced` that it did not within its grace.

    `on_progress` and `on_place` record what it tells.
    """

    def __init__(
        self,
        on_progress: Callable[[Any], Awaitable[None]],
        on_place: Callable[[str | None, str | None, str | None], Awaitable[None]],
    ) -> None:
        self.cancelled = anyio.Event()
        self.stop: StopReason | None = None
        self.forced = False
        self._on_progress, self._on_place = on_progress, on_place
        self._scope = anyio.CancelScope()
        self._job: JobStanding | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def progress(self, report: Any) -> None:
        """Tell how far the job is (`AttemptTools.progress`)."""
        await self._on_progress(report)

    async def place(self, thread_id: str | None, turn_id: str | None, host: str | None = None) -> None:
        """Say where the job is done (`AttemptTools.place`)."""
        await self._on_place(thread_id, turn_id, host)

    def ask_to_end(self, reason: StopReason) -> None:
        """Ask the attempt to end; the first reason counts."""
        if self.stop is not None:
            return
        self.stop = reason
        self.cancelled.set()
        if self._job is not None:
            self._set_timer(self._job.definition.cancel_grace_ms / 1_000 + FORCE_S, self._force)

    async def run(self, runner: JobRunner, job: JobStanding) -> AttemptEnd:
        """Run to the end and return how that was; a defect of the runner is the end of the attempt."""
        end = AttemptEnd(error="the attempt did not end when it was asked to", retryable=True)
        self._job, asked = job, self.stop
        if asked is None:
            self._set_timer(job.definition.time_limit_ms / 1_000, partial(self.ask_to_end, StopReason.TIME_LIMIT))
        else:
            # Its grace begins with the attempt: it was asked before there was anything to end.
            self._set_timer(job.definition.cancel_grace_ms / 1_000 + FORCE_S, self._force)
        try:
            with self._scope:
                end = await self._run(runner, job)
        finally:
            self._job = None
            self._set_timer(None, self._force)
        return end

    async def _run(self, runner: JobRunner, job: JobStanding) -> AttemptEnd:
        try:
            return await runner.run(job, self)
        except LifebusError as fault:
            return AttemptEnd(error=fault.detail, retryable=True)
        except Exception as fault:  # noqa: BLE001  what a runner does wrong costs its job and nothing else
            _log.exception("job_runner_failed", job_id=job.job_id, type=job.definition.type)
            return AttemptEnd(error=f"{type(fault).__name__}: {fault}")

    def _force(self) -> None:
        self.forced = True
        self._scope.cancel()

    def _set_timer(self, seconds: float | None, act: Callable[[], None]) -> None:
        """Have something done after so many seconds, and not what was to be done before; None is never."""
        # A timer of the loop: a task for each attempt, which only waits, costs more than the attempt's records.
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, act)
