"""A run in memory: its durable state, what came in and is not recorded yet, and what of it runs in this process."""

import asyncio
from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct, field

from lifebus_contract import LifebusError
from lifebus_supervisor.runtime.bus.receipt_emitter import RunReceipts
from lifebus_supervisor.runtime.root_lock import RootLock
from lifebus_supervisor.runtime.run_records import BROKER, RunRecord
from lifebus_supervisor.runtime.run_state import RunState

Make = Callable[[RunState, int], Sequence[RunRecord]]
"""Returns what is to be recorded, by the state at that time and the milliseconds since the epoch; nothing is fine.

Raises a `LifebusError` where the state does not allow it.
"""

Settle = Callable[[LifebusError | None], None]
"""Takes why something that came in was not recorded; None once it is durable."""


class Input(Struct, frozen=True):
    """Something that came in for a run.

    With `settle` somebody waits: it is dropped when it cannot be written, and he is told why.  Without, it is a fact
    that is kept and written later.
    """

    make: Make
    settle: Settle | None = None


def awaited_settle() -> tuple[Settle, asyncio.Future[None]]:
    """Return what settles an input that somebody waits for, and what is done by it or fails with its fault."""
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(fault: LifebusError | None) -> None:
        if durable.done():  # the caller was cancelled
            return
        if fault is None:
            durable.set_result(None)
        else:
            durable.set_exception(fault)

    return settle, durable


class ActiveRun(Struct, eq=False):
    """A run.  `root` is the real path that it holds.

    `state` is what is durable; `unwritten` are first records that are not.  `tries` has, for each step that runs in
    this process, what stops it.  One that `is_held` goes on when its receipts have.
    """

    state: RunState
    root: str
    receipts: RunReceipts | None = None
    lock: RootLock | None = None
    unwritten: tuple[RunRecord, ...] = ()
    inputs: list[Input] = field(default_factory=list[Input])
    tries: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    changed: anyio.Event | None = None
    is_writing: bool = False
    is_held: bool = False

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.state.run_id

    @property
    def is_ours(self) -> bool:
        """Whether the broker runs it."""
        return self.state.is_attached and self.state.owner == BROKER

    def notify(self) -> None:
        """Wake those who wait for a change."""
        if self.changed is not None:
            self.changed.set()
            self.changed = None

    async def wait(self) -> None:
        """Wait for the next change."""
        if self.changed is None:
            self.changed = anyio.Event()
        await self.changed.wait()

    def release(self) -> None:
        """Let go of the root."""
        if self.lock is not None:
            self.lock.close()
            self.lock = None
