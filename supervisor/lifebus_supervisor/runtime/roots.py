"""Which run holds which root: in this broker by a table, towards other processes by the lock of the root."""

import os
from pathlib import Path

import anyio.to_thread

from lifebus_contract import InternalError, LifebusError, StateConflict
from lifebus_supervisor.runtime.active_run import ActiveRun
from lifebus_supervisor.runtime.root_lock import RootLock, is_held, root_taken
from lifebus_supervisor.runtime.run_records import BROKER


class Roots:
    """The roots that are held, by their real paths."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._holders: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def keep(self, run: ActiveRun) -> None:
        """Have a run hold its root that held it before this broker began."""
        self._holders.setdefault(run.root, run.run_id)

    async def is_locked(self, run: ActiveRun) -> bool:
        """Whether some process holds the lock of a run's root."""
        return await anyio.to_thread.run_sync(is_held, self._state_dir, run.root)

    async def hold(self, run: ActiveRun, owner: str) -> None:
        """Have a run hold its root: the broker takes the lock, another owner has to have it already.

        Raises:
            StateConflict: ``root_taken``.
            InternalError: the lock cannot be made.
        """
        was_there = self._holders.get(run.root) == run.run_id
        holder = self._holders.setdefault(run.root, run.run_id)
        if holder != run.run_id:
            raise root_taken(run.root, f"run `{holder}`")
        try:
            if owner != BROKER:
                if not await self.is_locked(run):
                    raise StateConflict(f"{run.root}: `{owner[:64]}` does not hold its lock", code="root_taken")
            elif run.lock is None:
                text = f"run `{run.run_id}` of the broker (pid {os.getpid()})"
                run.lock = await anyio.to_thread.run_sync(RootLock.take, self._state_dir, run.root, text)
        except (OSError, LifebusError) as fault:
            if not was_there:
                self._holders.pop(run.root, None)
            if isinstance(fault, LifebusError):
                raise
            raise InternalError(f"the lock of {run.root}: {fault.strerror}", code="unreadable") from fault

    def release(self, run: ActiveRun) -> None:
        """Let go of a run's root."""
        run.release()
        if self._holders.get(run.root) == run.run_id:
            del self._holders[run.root]
