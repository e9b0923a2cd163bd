"""Subscribers of the demonstration: each notes what it saw, in which order."""

from collections.abc import Callable
from pathlib import Path

import anyio

from lifebus._internal.view import Gap, Position
from lifebus.client import Bus, connect
from lifebus_contract import Receipt


class Progress:
    """Wakes whoever waits for followers to get somewhere."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def note(self) -> None:
        """Something was seen."""
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is looked at each time something was seen."""
        while not reached():
            await self._changed.wait()


class Follower:
    """What one subscriber saw.  `session` is None for one that follows everything."""

    def __init__(self, name: str, session: tuple[str, str] | None = None) -> None:
        self.name = name
        self.session = session
        self.seen: list[tuple[int, str]] = []
        self.gaps: list[Gap] = []
        self.stopped_at: int | None = None
        self.missed = 0
        self.stopped = False
        self.cursor: Position | None = None

    @property
    def position(self) -> int:
        """The position of the last receipt it saw."""
        return self.seen[-1][0] if self.seen else 0

    def take(self, item: Receipt | Gap, cursor: Position | None) -> None:
        """Note one item."""
        self.cursor = cursor
        if isinstance(item, Gap):
            self.gaps.append(item)
        else:
            self.seen.append((cursor.position if cursor else 0, item.receipt_id))


async def follow(
    bus: Bus, follower: Follower, progress: Progress, show: Callable[[Receipt], None] | None = None
) -> None:
    """Follow from the start until cancelled."""
    receipts = bus.receipts(session=follower.session, since="start")
    async for item in receipts:
        follower.take(item, receipts.cursor)
        if show is not None and isinstance(item, Receipt):
            show(item)
        progress.note()


async def follow_with_a_break(
    runtime_dir: Path,
    follower: Follower,
    progress: Progress,
    *,
    stop_after: int,
    resume: anyio.Event,
    note: Callable[[str], None],
) -> None:
    """Follow on a connection of its own, hang up after some receipts, and go on from the cursor when told to."""
    async with connect(f"demo.{follower.name}", runtime_dir=runtime_dir) as bus:
        receipts = bus.receipts(since="start")
        async for item in receipts:
            follower.take(item, receipts.cursor)
            progress.note()
            if len(follower.seen) >= stop_after:
                break
        await receipts.aclose()
    follower.stopped, follower.stopped_at = True, follower.position
    note(f"`{follower.name}` hangs up after {len(follower.seen)} receipts")
    await resume.wait()
    async with connect(f"demo.{follower.name}", runtime_dir=runtime_dir) as bus:
        follower.missed = (await bus.status()).ledger.head - follower.position
        follower.stopped = False
        note(f"`{follower.name}` comes back, {follower.missed} receipts behind, and asks for what it missed")
        receipts = bus.receipts(since=follower.cursor)
        async for item in receipts:
            follower.take(item, receipts.cursor)
            progress.note()
