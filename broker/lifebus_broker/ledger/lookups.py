"""Questions for keys that come side by side, answered by one read: a hand-over to a thread costs more than the read."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import anyio

from lifebus_broker.ports import Known

MOST_KEYS: Final = 512
"""Most keys of one read; what comes afterwards is part of the next."""

Scope = tuple[str, str, str]
"""Whose key it is: client id, adapter id, idempotency key (docs/contract.md 6.5)."""

Found = Known | None
"""The digest and the receipt of a key, None where it is unknown."""

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class _Batch(Generic[Asked, Answer]):
    """The keys of one read, and its result."""

    def __init__(self) -> None:
        self.scopes: list[Asked] = []
        self.found: list[Answer] = []
        self.fault: Exception | None = None
        self.done = anyio.Event()

    def of(self, start: int, count: int) -> list[Answer]:
        """Return what was found of some of the keys."""
        if self.fault is not None:
            raise self.fault.with_traceback(None)
        return self.found[start : start + count]


class Lookups(Generic[Asked, Answer]):
    """Reads one batch after the other with `read`; whoever asks meanwhile joins the next one."""

    def __init__(self, read: Callable[[list[Asked]], Awaitable[list[Answer]]]) -> None:
        self._read = read
        self._turn = anyio.Lock()
        self._next: _Batch[Asked, Answer] | None = None

    async def find(self, scopes: Sequence[Asked]) -> list[Answer]:
        """Return what each key stands for.

        Raises:
            LifebusError: as `read`, for everybody in the batch.
        """
        batch, leads = self._next, False
        if batch is None or len(batch.scopes) + len(scopes) > MOST_KEYS:
            leads = True
            batch = self._next = _Batch[Asked, Answer]()
        start = len(batch.scopes)
        batch.scopes.extend(scopes)
        if leads:
            with anyio.CancelScope(shield=True):  # the others in the batch wait for this one
                await self._answer(batch)
        else:
            await batch.done.wait()
        return batch.of(start, len(scopes))

    async def _answer(self, batch: _Batch[Asked, Answer]) -> None:
        try:
            # one read at a time: whoever asks meanwhile fills the next batch
            async with self._turn:
                # closed to newcomers before the read begins
                if self._next is batch:
                    self._next = None
                batch.found = await self._read(batch.scopes)
        except Exception as fault:  # noqa: BLE001  raised again, to everybody in the batch
            batch.fault = fault
        finally:
            batch.done.set()
