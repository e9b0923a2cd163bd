"""Check the whole ledger beside a broker, slice by slice while nothing is recorded (docs/ledger.md, "The scrub").

What a start does not read is found damaged before somebody needs it.  Where a scrub is, and what the last one found, is
kept in a small file: the next start goes on there.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog
from msgspec import Struct, structs

from lifebus_broker.atomic_files import write_file
from lifebus_broker.ledger.factory import scrub_ledger
from lifebus_broker.ledger.scrubbing import ROWS, ScrubPlace
from lifebus_broker.ports import Ledger
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.messages.state import ScrubStatus

NAME: Final = "scrub.json"
"""The file in the state directory."""

_HOUR_S: Final = 3_600
_IDLE_S: Final = 0.25
"""So long nothing must have been recorded before a slice."""

_REST_FACTOR: Final = 100
"""A slice that took two milliseconds is followed by a rest of two hundred: a hundredth of one core at most."""

_KEEP_S: Final = 30.0
"""How often the position is written down: each time costs a sync."""

_AGAIN_S: Final = 60.0
_MOST_FAULTS: Final = 20

Scrub = Callable[[int, Callable[[ScrubPlace], None], Callable[[list[str]], None]], None]
"""Checks a ledger from behind a position on, asking before each slice and telling what is found; blocks."""

_log = structlog.get_logger("lifebus.scrub")


class ScrubRecord(Struct, frozen=True, kw_only=True):
    """What is kept of scrubs: of which ledger, where the present one is, when it began, and how the last whole one was.

    `faults` are what the present one and the last one found.
    """

    epoch: str
    position: int = 0
    began_epoch_s: int | None = None
    ended_epoch_s: int | None = None
    faults: tuple[str, ...] = ()


class Scrubber:
    """Scrubs a ledger every so many hours.  `clock` returns wall-clock seconds, `now` monotonic ones."""

    def __init__(
        self,
        ledger: Ledger,
        scrub: Scrub,
        path: Path,
        *,
        every_h: int,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._ledger, self._scrub, self._path, self._every_s = ledger, scrub, path, every_h * _HOUR_S
        self._clock, self._now = clock, now
        kept = read_record(path)
        # A small file, read before anybody is served: what was found is known from the first `status` on.
        self._record = kept if kept is not None and kept.epoch == ledger.epoch else ScrubRecord(epoch=ledger.epoch)
        self._place = ScrubPlace()
        self._found: list[str] = []
        self._stop = threading.Event()
        self._slice_began = self._kept_at = now()

    async def run(self) -> None:
        """Scrub whenever it is due, until cancelled."""
        while True:
            await anyio.sleep(self._due_in_s())
            if not await self._scrub_once():
                await anyio.sleep(_AGAIN_S)

    def report(self) -> ScrubStatus:
        """Return what `status` shows of scrubs."""
        record = self._record
        return ScrubStatus(
            every_h=self._every_s // _HOUR_S,
            part=self._place.part if record.began_epoch_s is not None else None,
            position=self._place.position if record.began_epoch_s is not None else 0,
            began_epoch_s=record.began_epoch_s,
            ended_epoch_s=record.ended_epoch_s,
            faults=record.faults,
        )

    def _due_in_s(self) -> float:
        """Return in how many seconds a scrub begins, or goes on; 0 for at once."""
        record = self._record
        if record.began_epoch_s is not None or record.ended_epoch_s is None:
            return 0
        # A clock that was set back must not keep scrubs off for longer than their interval.
        return min(max(0.0, record.ended_epoch_s + self._every_s - self._clock()), self._every_s)

    async def _scrub_once(self) -> bool:
        """Scrub the ledger to its end; say whether that came about."""
        self._stop.clear()
        done = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop_when_cancelled)
            done = await anyio.to_thread.run_sync(self._in_thread)
            tasks.cancel_scope.cancel()
        return done

    async def _stop_when_cancelled(self) -> None:
        # A thread cannot be cancelled: it waits between its slices for this event.
        try:
            await anyio.sleep_forever()
        finally:
            self._stop.set()

    def _in_thread(self) -> bool:
        """Scrub, and write down how far; say whether the end was reached."""
        record = self._record
        if record.began_epoch_s is None:
            record = structs.replace(record, position=0, began_epoch_s=int(self._clock()))
        # What was found before is believed until a whole scrub has not found it.
        self._record, self._found = record, list(record.faults) if record.position else []
        self._place, self._slice_began = ScrubPlace(ROWS, record.position), self._now()
        _log.info("scrub_begins", behind=record.position)
        try:
            self._scrub(record.position, self._pace, self._take)
        except _Stopped:
            self._keep(position=self._place.position)
            return False
        except Exception as fault:  # noqa: BLE001  a file that cannot be read now, or a defect here, is no end of the bus
            _log.warning("scrub_failed", fault=type(fault).__name__, detail=str(fault)[:200])
            return False
        self._keep(position=0, began_epoch_s=None, ended_epoch_s=int(self._clock()), faults=tuple(self._found))
        _log.info("scrub_ended", through=self._place.position, faults=len(self._found))
        return True

    def _pace(self, place: ScrubPlace) -> None:
        """Rest, then wait until nothing was recorded for a moment; called in the thread, before each slice."""
        self._place = place
        if self._now() - self._kept_at >= _KEEP_S:
            self._keep(position=place.position)
        rest = _REST_FACTOR * (self._now() - self._slice_began)
        while True:
            head = self._ledger.head
            if self._stop.wait(max(rest, _IDLE_S)):
                raise _Stopped
            if self._ledger.head == head and not self._ledger.status().queued:
                break
            rest = 0.0
        self._slice_began = self._now()

    def _take(self, findings: list[str]) -> None:
        """Say at once what was found; called in the thread."""
        for finding in findings:
            _log.error("scrub_found", finding=finding, next="`lifebus ledger verify` lists everything")
        self._found = [*self._found, *findings][:_MOST_FAULTS]
        self._keep(position=self._place.position, faults=tuple(dict.fromkeys([*self._found, *self._record.faults])))

    def _keep(self, **changes: object) -> None:
        """Write the record down; where there is no room for it only the position is lost."""
        self._record, self._kept_at = structs.replace(self._record, **changes), self._now()
        try:
            write_file(self._path, msgspec.json.encode(self._record))
        except OSError as fault:
            _log.warning("scrub_not_kept", detail=str(fault)[:200])


def read_record(path: Path) -> ScrubRecord | None:
    """Return what is kept of scrubs, None where nothing is or it cannot be read; blocks."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ScrubRecord)
    except (OSError, msgspec.DecodeError):
        return None


def compose_scrubber(settings: Settings, ledger: Ledger) -> Scrubber | None:
    """Return what scrubs a ledger, None where none is wanted or nothing is kept."""
    every_h = settings.scrub.every_h
    if not every_h or not ledger.capabilities.local_file:
        return None
    scrub = partial(scrub_ledger, settings.ledger_location)
    return Scrubber(ledger, scrub, settings.state_dir / NAME, every_h=every_h, clock=time.time, now=time.monotonic)


class _Stopped(Exception):
    """The thread is to end between two slices."""
