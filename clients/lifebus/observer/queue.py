"""Observations that wait to be sent: in order, numbered, bounded in count and bytes.  Pure."""

from collections import deque
from typing import Final

from msgspec import Struct

from lifebus_contract import encode_msgpack
from lifebus_transports.messages.signals import Observation, ObservedLoss, ObservedSignal

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


class ObservationQueue:
    """Observations that wait, and the batch that is under way."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Observation, int]] = deque()
        self._bytes = 0
        self._through = 0
        self._batch: ObservationBatch | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (len(self._batch.observations) if self._batch else 0)

    def add(self, observation: Observation) -> None:
        """Queue one more; where the queue is full, signals are dropped first, and then everything."""
        size = _size_of(observation)
        self._waiting.append((observation, size))
        self._bytes += size
        if self._is_full(1):
            self._drop(keep_facts=True)
            # It was mostly facts: everything is dropped, or the queue would be full again at once.
            if self._is_full(2):
                self._drop(keep_facts=False)

    def batch(self) -> ObservationBatch | None:
        """Return the batch to send: the one under way until it is acknowledged, then the next; None without any."""
        if self._batch is None and self._waiting:
            taken: list[Observation] = []
            size = 0
            while self._waiting and len(taken) < _BATCH_COUNT:
                size += self._waiting[0][1]
                if taken and size > _BATCH_BYTES:
                    break
                taken.append(self._take())
            self._batch = ObservationBatch(self._through + 1, tuple(taken))
        return self._batch

    def acknowledge(self, through: int) -> None:
        """Forget what is durable: everything up to a number."""
        if self._batch is None:
            return
        # The broker may have taken only the first part: the rest keeps its numbers, so that none is recorded twice.
        kept = self._batch.observations[max(0, through - self._through) :]
        self._through += len(self._batch.observations) - len(kept)
        self._batch = ObservationBatch(self._through + 1, kept) if kept else None

    def refuse(self) -> None:
        """The broker will never take this batch: send half of it, or count the single one as lost."""
        if self._batch is None:
            return
        half = self._batch.observations[: len(self._batch.observations) // 2]
        for observation in reversed(self._batch.observations[len(half) :]):
            if half:
                self._waiting.appendleft((observation, size := _size_of(observation)))
                self._bytes += size
            else:
                self._refuse_one(observation)
        self._batch = ObservationBatch(self._batch.first, half) if half else None

    def remaining(self) -> ObservedLoss:
        """Return how much would be lost now: what still waits, and the losses that are queued."""
        batch = self._batch.observations if self._batch else ()
        found = ObservedLoss()
        for observation in (*batch, *(observation for observation, _ in self._waiting)):
            found = _sum(found, _as_lost(observation))
        return found

    def _refuse_one(self, observation: Observation) -> None:
        """Put a loss into the place of the observation, unless it is itself one."""
        if not isinstance(observation, ObservedLoss):
            self._waiting.appendleft((_as_lost(observation), _ENVELOPE_BYTES))
            self._bytes += _ENVELOPE_BYTES

    def _take(self) -> Observation:
        observation, size = self._waiting.popleft()
        self._bytes -= size
        return observation

    def _is_full(self, share: int) -> bool:
        return len(self._waiting) > MAX_COUNT // share or self._bytes > MAX_BYTES // share

    def _drop(self, *, keep_facts: bool) -> None:
        """Put one loss into the place of each stretch of what is dropped."""
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        lost = ObservedLoss()
        for observation, size in waiting:
            if keep_facts and not isinstance(observation, ObservedSignal | ObservedLoss):
                self._put_lost(lost)
                lost = ObservedLoss()
                self._waiting.append((observation, size))
                self._bytes += size
            else:
                lost = _sum(lost, _as_lost(observation))
        self._put_lost(lost)

    def _put_lost(self, lost: ObservedLoss) -> None:
        if lost != ObservedLoss():
            self._waiting.append((lost, _ENVELOPE_BYTES))
            self._bytes += _ENVELOPE_BYTES


def _size_of(observation: Observation) -> int:
    if isinstance(observation, ObservedSignal):
        return len(observation.signal) + len(observation.thread) + len(observation.event_type) + _ENVELOPE_BYTES
    return len(encode_msgpack(observation))


def _as_lost(observation: Observation) -> ObservedLoss:
    """Return what is lost with an observation."""
    if isinstance(observation, ObservedLoss):
        return observation
    return ObservedLoss(messages=1, bytes=len(observation.signal) if isinstance(observation, ObservedSignal) else 0)


def _sum(one: ObservedLoss, other: ObservedLoss) -> ObservedLoss:
    return ObservedLoss(messages=one.messages + other.messages, bytes=one.bytes + other.bytes)
