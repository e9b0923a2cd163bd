"""The hook server and the spool of one broker: every hook call comes in here, at once or from the spool."""

import time
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from lifebus_adapters.adapter import HookAnswer, HookCall
from lifebus_broker.durations import Durations
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_transports.hooks.server import HookServerCounters, HookServerLimits, serve_hooks
from lifebus_transports.hooks.spool import SpoolCounters, drain_spool
from lifebus_transports.processes.identity import caller_of, late_caller_of
from lifebus_transports.runtime_dir import ensure_private_directory

SOCKET: Final = "hook.sock"
"""The name of the hook server's socket in the runtime directory."""

DRAIN_S: Final = 5.0
"""How often the spool is read while the broker runs, in seconds: calls that the server answers busy go there too."""

_log = structlog.get_logger("lifebus.intake")


class HookIntake:
    """Takes hook calls from server and spool and hands them to `calls`.

    `durations` counts how long calls of the server took, from the moment they were read until their answer was made.
    """

    def __init__(self, calls: HookCalls, settings: Settings) -> None:
        self._calls = calls
        self._path = settings.runtime_dir / SOCKET
        self._spool = settings.state_dir / "spool"
        self._limits = HookServerLimits(answer_s=settings.limits.hook_answer_ms / 1000)
        self._server = HookServerCounters()
        self._spooled = SpoolCounters()
        self.durations = Durations(time.perf_counter)

    async def open(self, tasks: TaskGroup) -> None:
        """Take in what hooks left while no broker ran, in order, and only then accept new calls.

        Raises:
            LifebusError: the spool is not ours alone.
            OSError: the socket cannot be opened.
        """
        ensure_private_directory(self._spool)
        await self._drain()
        # the socket last: a call that came in before the spool was read would be recorded ahead of older ones
        await tasks.start(self._serve)
        tasks.start_soon(self._drain_now_and_then)

    def counters(self) -> dict[str, int]:
        """Return what the server and the spool counted since the start."""
        server, spool, calls = self._server, self._spooled, self._calls.counters
        return {
            "hook_calls": server.calls,
            "hook_late": server.late,
            "hook_failed": server.failed,
            "hook_gone": server.gone,
            "hook_refused": server.refused,
            "hook_busy": server.busy,
            "hook_malformed": server.malformed,
            "hook_cut_off": server.cut_off,
            "hook_starved": server.starved,
            "hook_oversized": server.oversized,
            "hook_unreadable": calls.unreadable,
            "hook_failed_unrecorded": calls.unrecorded,
            "hook_unknown_adapter": calls.unknown_adapter,
            "spool_drained": spool.drained,
            "spool_refused": spool.refused,
            "spool_malformed": spool.malformed,
            "spool_oversized": spool.oversized,
            "spool_dropped": spool.dropped,
            "spool_left": int(spool.left),
        }

    def unknown_adapters(self) -> tuple[str, ...]:
        """Return the names of adapters that calls gave and nobody knows, as far as they are kept."""
        return self._calls.counters.unknown_names

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        try:
            await serve_hooks(
                self._path,
                self._handle,
                limits=self._limits,
                counters=self._server,
                caller_of=caller_of,
                on_answered=self._calls.answered,
                task_status=task_status,
            )
        finally:
            self._path.unlink(missing_ok=True)

    async def _handle(self, call: HookCall) -> HookAnswer:
        started = self.durations.now()
        try:
            return await self._calls.handle(call)
        finally:
            self.durations.add_since(started)

    async def _drain_now_and_then(self) -> None:
        while True:
            await anyio.sleep(DRAIN_S)
            try:
                await self._drain()
            except (LifebusError, OSError) as fault:
                _log.warning("spool_unreadable", fault=type(fault).__name__)

    async def _drain(self) -> None:
        found = await drain_spool(self._spool, self._calls.handle, caller_of=late_caller_of)
        total = self._spooled
        self._spooled = SpoolCounters(
            drained=total.drained + found.drained,
            refused=total.refused + found.refused,
            duplicate=total.duplicate + found.duplicate,
            malformed=total.malformed + found.malformed,
            oversized=total.oversized + found.oversized,
            # these two are states of the spool and not counts of a pass: adding them up would mean nothing
            dropped=found.dropped,
            left=found.left,
        )
