"""What every system under test has to do, and how what it did is written down.

The work for each receipt is the same everywhere: check the idempotency key, take the next number of its session,
append durably, publish to subscribers, acknowledge.  Every acknowledgement is counted.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import psutil

RECEIPT_BYTES = 400
SESSIONS = 50
_MAX_LATE_S = 0.1
_BURST_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One receipt to record: its session, its idempotency key, and the bytes that a peer stores."""

    session: int
    key: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many acknowledgements came in how many seconds."""

    acknowledged: int
    seconds: float
    refusals: Sequence[float] = ()
    """The seconds to each refusal, after which the client asked again."""

    @property
    def per_second(self) -> float:
        """Acknowledged receipts a second."""
        return self.acknowledged / self.seconds


class RefusedError(Exception):
    """The system refused a receipt that was asked for alone."""


class Pace:
    """Lets at most so many receipts a second be sent; no more than a tenth of a second's share at once."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.perf_counter) -> None:
        self._per_second, self._now = per_second, now
        self._due = now()

    def wait(self) -> float:
        """Return the seconds until the next message may be sent; 0 where it may now."""
        return max(0.0, self._due - self._now())

    def spend(self, receipts: int) -> None:
        """Take note of a message that was sent."""
        self._due = max(self._due, self._now() - _BURST_S) + receipts / self._per_second


class Peer(Protocol):
    """A running system under test, seen from one client process."""

    name: str
    settings: str
    pid: int
    """The server's process, whose CPU time is measured."""

    def batches(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        """Record the items in batches of `size`, `in_flight` batches at a time."""
        ...

    def overload(self, items: Sequence[Item], size: int, in_flight: int, offered: float) -> Rate:
        """As `batches`, with far too many under way; what is refused is offered again, `offered` receipts a second."""
        ...

    def singles(self, items: Sequence[Item], in_flight: int) -> Rate:
        """Record the items by one message each, `in_flight` messages at a time."""
        ...

    def one_by_one(self, items: Sequence[Item]) -> list[float]:
        """Record the items one after the other; return the seconds that each took."""
        ...

    def trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        """Record batch after batch, one each `pause` seconds; a batch is asked for when its time has come."""
        ...

    def follow(self, take: Callable[[str], bool]) -> None:
        """Subscribe to everything, and hand on the key of each receipt until `take` says that it was the last."""
        ...


_serials = itertools.count()


def items(count: int, sessions: int = SESSIONS, size: int = RECEIPT_BYTES) -> list[Item]:
    """Return `count` receipts with fresh idempotency keys, dealt over the sessions in turn."""
    return [
        Item(session=number % sessions, key=f"key-{number:012d}", body=_body(number, number % sessions, size))
        # One counter for the whole process: a key that was seen before would be replayed, not recorded.
        for number in itertools.islice(_serials, count)
    ]


def item(key: str, size: int = RECEIPT_BYTES) -> Item:
    """Return one receipt of session 0 whose key a subscriber finds in the bytes that a peer stores."""
    head = f'{{"key":"{key}","padding":"'.encode()
    return Item(session=0, key=key, body=head + b"x" * (size - len(head) - 2) + b'"}')


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Cut the items into batches."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def paced(batches: Iterable[Sequence[Item]], pause: float) -> AsyncIterator[Sequence[Item]]:
    """Yield batch after batch when its time has come, which is every `pause` seconds, whatever the last one took."""
    due = time.perf_counter()
    for batch in batches:
        yield batch
        due = max(due + pause, time.perf_counter() - _MAX_LATE_S)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time that a process has taken, which no neighbour on the machine changes."""
    # User and system time: syncs and sockets are paid for in the kernel.
    times = process.cpu_times()
    return float(times.user + times.system)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds since then."""
        return time.perf_counter() - self._started

    def rate(self, acknowledged: int) -> Rate:
        """Return the rate at which that many acknowledgements came."""
        return Rate(acknowledged=acknowledged, seconds=self.seconds)


def _body(number: int, session: int, size: int) -> bytes:
    head = f'{{"receipt_id":"lfr_{number:026d}","harness_session_id":"s{session}","padding":"'.encode()
    return head + b"x" * (size - len(head) - 2) + b'"}'
