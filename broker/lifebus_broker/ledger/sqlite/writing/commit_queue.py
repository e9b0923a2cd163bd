"""Who commits what is appended: the event loop itself while the disk is quick, the writer thread otherwise.

What was appended in one turn of the loop is committed at its end, in one transaction, where the thread has nothing to
do and the file is not in use; what is more than the loop may commit at once waits for the next turn.  Everything else
goes to the thread, in the order in which it came (docs/ledger.md D1).  Neither way waits for the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import apsw

from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.writing.writer import PendingAppend, Results, Task, Work, Writer
from lifebus_broker.ports import StoredReceipt
from lifebus_contract import BrokerBusy, InternalError, LifebusError

LOOP_ROWS: Final = 512
"""Most receipts and records that the loop commits at once: more of them would keep it from everybody else."""

LOOP_WEIGHT: Final = 524_288
"""Most estimated bytes that the loop commits at once."""

WAKE_S: Final = 0.05
"""How long after a commit of the loop the thread is woken for it: sooner, it would get in the way of the answers."""


class CommitQueue:
    """What was appended and is not committed yet.  Runs on the event loop, and belongs to one writer.

    `committed` gets what the loop committed, as `Reports.committed` does from the thread; `failed` gets the error after
    which the disk is not trusted any more.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        committed: Callable[[Results, list[StoredReceipt]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._writer, self._committed, self._failed = writer, committed, failed
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PendingAppend] = deque()
        self._in_thread = 0  # how much the thread was given and has not reported
        self._is_due = self._is_wake_due = False

    def submit(self, work: Work) -> None:
        """Take an append or a task in its turn; never waits, and nothing is called before a later turn of the loop."""
        if isinstance(work, Task) or not self._writer.pace.is_quick or _is_large(work.count, work.weight):
            self.hand_over()  # what came before it is committed before it
            self._give(work)
            return
        self._waiting.append(work)
        self._schedule()

    async def run(self, work: Callable[[Store], Any]) -> Any:
        """Have the thread do something between two transactions, and return its result.

        Raises:
            LifebusError: the file takes no writes now, or the ledger has stopped.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.submit(Task(work, partial(_resolve, future)))
        return await future

    def returned(self, count: int) -> None:
        """Learn that the thread has reported so many appends and tasks."""
        self._in_thread -= count
        self._schedule()

    def hand_over(self) -> None:
        """Have the thread commit all that waits."""
        for pending in self.take():
            self._give(pending)

    def take(self) -> list[PendingAppend]:
        """Return what neither the loop nor the thread has begun; it is the caller's now."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def _give(self, work: Work) -> None:
        self._in_thread += 1
        self._writer.submit(work)

    def _schedule(self) -> None:
        # While the thread has something, what comes waits: positions and answers have the order of the appends.
        if self._waiting and not self._in_thread and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """Commit a part of what waits, or have the thread do all of it."""
        self._is_due = False
        if self._in_thread or not self._waiting:
            return
        appends = self._take_some()
        try:
            found = self._writer.commit_now(appends)
        except Exception as fault:  # noqa: BLE001  whatever it is, nothing more may be acknowledged
            self._failed(fault)
            return
        if found is None:
            self._waiting.extendleft(reversed(appends))
            self.hand_over()
            return
        self._committed(*found)
        if not self._is_wake_due:
            self._is_wake_due = True
            self._loop.call_later(WAKE_S, self._wake)
        self._schedule()

    def _wake(self) -> None:
        self._is_wake_due = False
        self._writer.wake()

    def _take_some(self) -> list[PendingAppend]:
        """Take as much as the loop may commit at once, from the first on."""
        appends: list[PendingAppend] = []
        rows = weight = 0
        while self._waiting:
            rows, weight = rows + self._waiting[0].count, weight + self._waiting[0].weight
            if _is_large(rows, weight):
                break
            appends.append(self._waiting.popleft())
        return appends


def _is_large(rows: int, weight: int) -> bool:
    """Whether it is more than the loop commits at once."""
    return rows > LOOP_ROWS or weight > LOOP_WEIGHT


def _resolve(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(_refused(result))
    else:
        future.set_result(result)


def _refused(fault: BaseException) -> LifebusError:
    """Return what the caller of a task gets when the file refused it."""
    if isinstance(fault, apsw.FullError | apsw.BusyError):
        return BrokerBusy(f"the ledger takes no writes now: {type(fault).__name__}", code="busy")
    return InternalError(f"the ledger stopped: {type(fault).__name__}", code="ledger_failed")
