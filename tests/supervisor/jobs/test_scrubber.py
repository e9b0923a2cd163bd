"""The scrub beside a broker: at idle alone, from where it was, and what it finds is told and kept."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_broker.ledger.scrubbing import ScrubPlace
from lifebus_supervisor.jobs import scrubber as scrubber_module
from lifebus_supervisor.jobs.scrubber import Scrubber, read_record
from support.broker_process import until

DAY_S = 86_400
HOUR_S = 3_600


class BusyLedger:
    """What a scrubber asks of a ledger; `head` moves at every look while it is `busy`."""

    epoch = "e" * 32

    def __init__(self) -> None:
        self.busy = False
        self.looks = 0
        self._head = 10

    @property
    def head(self) -> int:
        self.looks += 1
        self._head += self.busy
        return self._head

    def status(self) -> Any:
        return type("Status", (), {"queued": 0})


class Slices:
    """A scrub of so many slices of ten rows, which finds what it is told to in one of them.

    `at_slice` is called in the thread with the place of each slice, before it.
    """

    def __init__(self, count: int, fault_at: int | None = None) -> None:
        self.count, self.fault_at = count, fault_at
        self.began: list[int] = []
        self.done: list[int] = []
        self.at_slice: Callable[[int], None] = lambda _: None

    def __call__(self, after: int, pace: Callable[[ScrubPlace], None], found: Callable[[list[str]], None]) -> None:
        self.began.append(after)
        for position in range(after, self.count * 10, 10):
            self.at_slice(position)
            pace(ScrubPlace("rows", position, self.count * 10))
            self.done.append(position)
            if position == self.fault_at:
                found([f"row {position}: link"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber_module, "_IDLE_S", 0.005)
    monkeypatch.setattr(scrubber_module, "_REST_FACTOR", 1)


def scrubber_of(path: Path, slices: Slices, ledger: BusyLedger, clock: float = 1_000_000.0) -> Scrubber:
    """A scrubber whose times are given; no thread of it waits for long."""
    fake: Any = ledger
    return Scrubber(fake, slices, path, every_h=24, clock=lambda: clock, now=lambda: 0.0)


async def test_nothing_is_checked_while_receipts_are_recorded(tmp_path: Path) -> None:
    ledger, slices = BusyLedger(), Slices(3)
    ledger.busy = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrubber_of(tmp_path / "scrub.json", slices, ledger).run)
        await until(lambda: ledger.looks > 20)
        assert slices.done == []
        ledger.busy = False
        await until(lambda: slices.done == [0, 10, 20])
        tasks.cancel_scope.cancel()


async def test_what_is_found_is_told_at_once_and_believed_until_a_whole_scrub_has_not_found_it(tmp_path: Path) -> None:
    path, ledger = tmp_path / "scrub.json", BusyLedger()
    first = scrubber_of(path, Slices(3, fault_at=10), ledger)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.run)
        await until(lambda: first.report().ended_epoch_s is not None)
        tasks.cancel_scope.cancel()
    assert first.report().faults == ("row 10: link",)

    healed = scrubber_of(path, Slices(3), ledger, clock=1_000_000.0 + DAY_S)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(healed.run)
        await until(lambda: healed.report().ended_epoch_s == 1_000_000 + DAY_S)
        tasks.cancel_scope.cancel()
    assert healed.report().faults == ()


async def test_a_stop_keeps_the_place_and_the_next_start_goes_on_there(tmp_path: Path) -> None:
    path, ledger, slices = tmp_path / "scrub.json", BusyLedger(), Slices(100)
    held = threading.Event()

    def hold(position: int) -> None:
        if position == 30:
            ledger.busy = True  # the thread gets no further, however late the stop comes
            held.set()

    slices.at_slice = hold
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrubber_of(path, slices, ledger).run)
        await until(held.is_set)
        tasks.cancel_scope.cancel()
    record = read_record(path)
    assert record is not None
    assert (record.position, slices.done) == (30, [0, 10, 20])

    rest, ledger.busy = Slices(100), False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrubber_of(path, rest, ledger).run)
        await until(lambda: bool(rest.began))
        tasks.cancel_scope.cancel()
    assert rest.began == [record.position]


async def test_a_whole_scrub_is_not_made_again_before_its_time_and_one_of_another_ledger_does_not_count(
    tmp_path: Path,
) -> None:
    path, ledger = tmp_path / "scrub.json", BusyLedger()
    done = scrubber_of(path, Slices(1), ledger)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(done.run)
        await until(lambda: done.report().ended_epoch_s is not None)
        tasks.cancel_scope.cancel()

    early, other = Slices(1), Slices(1)
    restored = BusyLedger()
    restored.epoch = "f" * 32
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrubber_of(path, early, ledger, clock=1_000_000.0 + DAY_S - HOUR_S).run)
        tasks.start_soon(scrubber_of(path, other, restored).run)
        await until(lambda: bool(other.done))
        tasks.cancel_scope.cancel()
    assert early.began == []
