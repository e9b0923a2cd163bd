"""Dispatches that no caller waits for: bounded in number and owned by a task group."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from anyio.abc import TaskGroup

MOST: Final = 256
"""Most dispatches to background clients under way at once; more are refused as busy."""

DispatchKey = tuple[str, str, str]
"""Whose key it is: client id, adapter id, idempotency key (docs/contract.md 6.5)."""

_log = structlog.get_logger("lifebus.background")


class Background:
    """Runs dispatches in `tasks`.  The same key is never under way twice."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.running = 0
        self._tasks = tasks
        self._under_way: set[DispatchKey] = set()

    def has(self, scope: DispatchKey) -> bool:
        """Whether a dispatch under this key is under way."""
        return scope in self._under_way

    def start(self, work: Callable[[], Awaitable[None]], scope: DispatchKey | None) -> bool:
        """Start work, under a key if it has one; False when too much is under way already."""
        # Refused, not queued: a queue of calls that take minutes would only grow.
        if self.running >= MOST:
            return False
        self.running += 1
        # Marked here and not in the task: a second start may come before the task begins.
        if scope is not None:
            self._under_way.add(scope)
        self._tasks.start_soon(self._run, work, scope)
        return True

    async def _run(self, work: Callable[[], Awaitable[None]], scope: DispatchKey | None) -> None:
        try:
            await work()
        except Exception:  # noqa: BLE001  a defect of ours costs this dispatch, not everybody's bus
            _log.exception("background_failed")
        finally:
            self.running -= 1
            if scope is not None:
                self._under_way.discard(scope)
