"""Observations that wait to be sent: in order, numbered, bounded in count and bytes.  Pure."""

from collections import deque
from typing import Final

from msgspec import Struct

from lifebus.observer.recording import Positions
from lifebus_contract import encode_msgpack
from lifebus_transports.messages.signals import Observation, ObservedLoss, ObservedSignal, ObservedTurn

MAX_COUNT: Final = 20_000
"""Observations that wait at most."""

MAX_BYTES: Final = 16 * 1_048_576
"""Bytes of observations that wait at most."""

_BATCH_COUNT: Final = 1_024
_BATCH_BYTES: Final = 196_608
"""Bytes of one message, with room for what is around its observations."""

_ENVELOPE_BYTES: Final = 64


class ObservationBatch(Struct, frozen=True):
    """Observations under way: `first` is the number of the first of them, and it never gets another."""

    first: int
    observations: tuple[Observation, ...]


class _Entry(Struct, frozen=True):
    """An observation that waits: its size here, what is lost with it, and how far all is read once it is sent."""

    observation: Observation
    size: int
    loss: ObservedLoss
    read: Positions | None


class ObservationQueue:
    """Observations that wait, and the batch that is under way.

    `read` is how far the reader is, in bytes of both directions.
    """

    def __init__(self) -> None:
        self.read: Positions = (0, 0)
        self._reported: Positions = (0, 0)
        self._waiting: deque[_Entry] = deque()
        self._bytes = 0
        self._through = 0
        self._sent: tuple[_Entry, ...] = ()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def reported(self) -> Positions:
        """Return how far everything is durable with the broker, in bytes of both directions."""
        return self._reported if len(self) else self.read

    def begin(self, at: Positions) -> None:
        """Begin to read at these positions: what came before was reported by another observer."""
        self.read = self._reported = at

    def advance(self, read: Positions) -> None:
        """Take it that all is read up to these positions; call `add` for what is to be reported of it."""
        if not len(self):
            # Nothing waits: all before was reported, or said nothing, and stays so while what follows waits.
            self._reported = self.read
        self.read = read

    def add(self, observation: Observation, loss: ObservedLoss | None = None, *, read: Positions | None = None) -> None:
        """Queue one more; where the queue is full, signals are dropped first, and then everything.

        `loss` is what is lost with it: by the first observation of a message the whole message, by all others nothing.
        `read` is how far everything is reported once this is.
        """
        if isinstance(observation, ObservedLoss):
            loss = observation
        self._append(_Entry(observation, _size_of(observation), loss or _NOTHING, read))
        if self._is_full(1):
            self._drop(keep_facts=True)
            # It was mostly facts: everything is dropped, or the queue would be full again at once.
            if self._is_full(2):
                self._drop(keep_facts=False)

    def batch(self) -> ObservationBatch | None:
        """Return the batch to send: the one under way until it is acknowledged, then the next; None without any."""
        if not self._sent:
            taken: list[_Entry] = []
            size = 0
            while self._waiting and len(taken) < _BATCH_COUNT:
                size += self._waiting[0].size
                if taken and size > _BATCH_BYTES:
                    break
                taken.append(self._waiting.popleft())
                self._bytes -= taken[-1].size
            self._sent = tuple(taken)
        if not self._sent:
            return None
        return ObservationBatch(self._through + 1, tuple(entry.observation for entry in self._sent))

    def acknowledge(self, through: int) -> None:
        """Forget what is durable: everything up to a number."""
        # The broker may have taken only the first part: the rest keeps its numbers, so that none is recorded twice.
        count = min(max(0, through - self._through), len(self._sent))
        for entry in self._sent[:count]:
            self._reported = entry.read or self._reported
        self._sent = self._sent[count:]
        self._through += count

    def refuse(self) -> None:
        """The broker will never take this batch: send half of it, or count the single one as lost."""
        half = len(self._sent) // 2
        back, self._sent = self._sent[half:], self._sent[:half]
        for entry in reversed(back):
            kept = entry if half else _refused(entry)
            if kept is not None:
                self._waiting.appendleft(kept)
                self._bytes += kept.size

    def remaining(self) -> ObservedLoss:
        """Return how much would be lost now: what still waits, and the losses that are queued."""
        found = _NOTHING
        for entry in (*self._sent, *self._waiting):
            found = _sum(found, entry.loss)
        return found

    def _append(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        self._bytes += entry.size

    def _is_full(self, share: int) -> bool:
        return len(self._waiting) > MAX_COUNT // share or self._bytes > MAX_BYTES // share

    def _drop(self, *, keep_facts: bool) -> None:
        """Put one loss into the place of each stretch of what is dropped."""
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        dropped: list[_Entry] = []
        for entry in waiting:
            if _is_end(entry.observation) or (
                keep_facts and not isinstance(entry.observation, ObservedSignal | ObservedLoss)
            ):
                self._put_lost(dropped)
                dropped = []
                self._append(entry)
            else:
                dropped.append(entry)
        self._put_lost(dropped)

    def _put_lost(self, dropped: list[_Entry]) -> None:
        lost, read = _NOTHING, None
        for entry in dropped:
            lost, read = _sum(lost, entry.loss), entry.read or read
        if dropped:
            # Facts whose message was sent: that they are lost is known, and not how many messages that makes.
            lost = ObservedLoss(messages=None) if lost == _NOTHING else lost
            self._append(_Entry(lost, _ENVELOPE_BYTES, lost, read))


_NOTHING: Final = ObservedLoss()


def _is_end(observation: Observation) -> bool:
    """Whether it is the end of a worker's turn: without it the turn would be had again; there is one a turn."""
    return isinstance(observation, ObservedTurn) and observation.status != "inProgress"


def _size_of(observation: Observation) -> int:
    if isinstance(observation, ObservedSignal):
        return len(observation.signal) + len(observation.thread) + len(observation.event_type) + _ENVELOPE_BYTES
    return len(encode_msgpack(observation))


def _refused(entry: _Entry) -> _Entry | None:
    """Return what to send instead of what the broker never takes; None where that is nothing."""
    observation = entry.observation
    if not isinstance(observation, ObservedLoss):
        lost = ObservedLoss(messages=None) if entry.loss == _NOTHING else entry.loss
    elif observation.messages is None:  # a broker of an earlier release does not know the unknown number
        lost = ObservedLoss(bytes=observation.bytes)
    else:
        return None
    return _Entry(lost, _ENVELOPE_BYTES, lost, entry.read)


def _sum(one: ObservedLoss, other: ObservedLoss) -> ObservedLoss:
    """Return two losses together; the number of messages is unknown where one of them is."""
    known = one.messages is not None and other.messages is not None
    messages = (one.messages or 0) + (other.messages or 0) if known else None
    return ObservedLoss(messages=messages, bytes=one.bytes + other.bytes)
