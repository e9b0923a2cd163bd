"""The deliveries of a named consumer as a state machine: in flight, due again, settled.  Pure.

Time is passed in as seconds of a monotonic clock.  `take_progress` returns what must survive a restart.
"""

from collections.abc import Collection, Iterable
from typing import Final

from lifebus_broker.state.consumer_state import ConsumerProgress, ConsumerState
from lifebus_contract.consumers import MAX_TRIES, ConsumerSettings

ALONE_FROM: Final = 5
"""Tries from which a receipt is delivered alone, so that a crash is not blamed on those delivered with it."""

LONGEST_PAUSE_S: Final = 60.0
"""The longest pause before another try, in seconds."""

SAVE_EVERY: Final = 4096
"""Positions scanned without a match after which the progress is saved all the same."""


class DeliveryState:
    """The deliveries of one consumer.  `scanned` is the ledger position up to which it has read."""

    def __init__(self, state: ConsumerState) -> None:
        self.settings: ConsumerSettings = state.settings
        self.client_id = state.client_id
        self.epoch = state.epoch
        self.scanned = self._saved = state.scanned
        self.dead = state.dead
        self._tries = dict(state.open)
        self._in_flight: dict[int, float] = {}  # position to the time when the acknowledgement is overdue
        self._due = dict.fromkeys(state.open, 0.0)  # position to the time of the next try; a restart makes all due
        self._changed: set[int] = set()  # positions whose tries or end are not saved yet

    @property
    def state(self) -> ConsumerState:
        """Everything that survives a restart."""
        return ConsumerState(
            settings=self.settings,
            client_id=self.client_id,
            epoch=self.epoch,
            scanned=self.scanned,
            open=dict(sorted(self._tries.items())),
            dead=self.dead,
        )

    @property
    def position(self) -> int:
        """The position up to which everything is settled."""
        return min(self._tries) - 1 if self._tries else self.scanned

    @property
    def open(self) -> int:
        """How many receipts were delivered and are not settled."""
        return len(self._tries)

    @property
    def in_flight(self) -> int:
        """How many receipts the consumer holds now."""
        return len(self._in_flight)

    @property
    def unsaved(self) -> bool:
        """Whether there is progress worth a write."""
        return bool(self._changed) or self.scanned - self._saved >= SAVE_EVERY

    def room(self, now: float) -> int:
        """Return how many new receipts may be delivered; none while one is delivered alone, or is due to be."""
        waiting = any(at <= now and self._tries[position] >= ALONE_FROM for position, at in self._due.items())
        if waiting or self._one_is_alone:
            return 0
        return max(self.settings.max_in_flight - len(self._tries), 0)

    def expire(self, now: float) -> None:
        """Make due again what was not acknowledged in time."""
        self.nack([position for position, until in self._in_flight.items() if until <= now], now)

    def exhausted(self) -> list[int]:
        """Return what is not in flight and was tried `MAX_TRIES` times."""
        return sorted(position for position in self._due if self._tries[position] >= MAX_TRIES)

    def due(self, now: float, limit: int) -> list[int]:
        """Return what is to be delivered again; from `ALONE_FROM` tries on alone in flight."""
        if self._one_is_alone:
            return []
        ready = sorted(position for position, at in self._due.items() if at <= now)
        # Those that never failed much go first; one that may crash the consumer waits until nothing else is held.
        calm = [position for position in ready if self._tries[position] < ALONE_FROM]
        if calm or self._in_flight:
            return calm[:limit]
        return ready[: min(limit, 1)]

    def next_due(self, now: float) -> float | None:
        """Return the next time after `now` at which a delivery gets due or overdue."""
        return min((at for at in (*self._due.values(), *self._in_flight.values()) if at > now), default=None)

    def deliver(self, position: int, now: float) -> int:
        """Deliver a receipt, and return the number of this try."""
        self._due.pop(position, None)
        tries = self._tries[position] = self._tries.get(position, 0) + 1
        self._in_flight[position] = now + self.settings.ack_wait_ms / 1000
        self._changed.add(position)
        self.scanned = max(self.scanned, position)
        return tries

    def scan_to(self, position: int) -> None:
        """Record that nothing else up to a position passes the filter."""
        self.scanned = max(self.scanned, position)

    def settle(self, positions: Iterable[int] = (), through: int = 0) -> int:
        """Settle single positions and all up to `through`; return how many of them were open."""
        done = {position for position in positions if position in self._tries}
        done.update(position for position in self._tries if position <= through)
        for position in done:
            self._forget(position)
        return len(done)

    def nack(self, positions: Iterable[int], now: float, delay: float | None = None) -> int:
        """Make due again what is in flight, after `delay` seconds or the usual pause; return how many."""
        returned = [position for position in positions if position in self._in_flight]
        for position in returned:
            del self._in_flight[position]
            self._due[position] = now + (self._pause(self._tries[position]) if delay is None else delay)
        return len(returned)

    def release(self, unseen: Collection[int] = ()) -> None:
        """Make everything in flight due at once; for positions in `unseen` the try does not count."""
        for position in list(self._in_flight):
            del self._in_flight[position]
            self._due[position] = 0.0
            if position in unseen:
                self._tries[position] -= 1
                self._changed.add(position)

    def is_in_flight(self, position: int) -> bool:
        """Whether the consumer holds a receipt now."""
        return position in self._in_flight

    def withdraw(self, tries: Iterable[tuple[int, int]]) -> None:
        """Take back deliveries that never left, each a position and the number of its try: due, and not tried."""
        for position, attempt in tries:
            if self._tries.get(position) == attempt:
                self._in_flight.pop(position, None)
                self._due.setdefault(position, 0.0)
                self._tries[position] -= 1
                self._changed.add(position)

    def give_up(self, position: int) -> int:
        """Stop trying a receipt, and return how often it was tried."""
        tries = self._tries[position]
        self._forget(position)
        self.dead += 1
        return tries

    def skip(self, through: int) -> None:
        """Settle everything up to a position and go on after it."""
        self.settle(through=through)
        self.scan_to(through)

    def take_progress(self) -> ConsumerProgress | None:
        """Return the progress to save, None if it is not worth a write; it counts as saved then."""
        if not self.unsaved:
            return None
        # Absolute values and not steps: applied twice after a crash, they give the same state.
        changed, self._changed = sorted(self._changed), set()
        self._saved = self.scanned
        return ConsumerProgress(
            scanned=self.scanned,
            tried=tuple((position, self._tries[position]) for position in changed if position in self._tries),
            settled=tuple(position for position in changed if position not in self._tries),
            dead=self.dead,
        )

    def take_state(self) -> ConsumerState:
        """Return the whole state; it counts as saved then."""
        self._changed, self._saved = set(), self.scanned
        return self.state

    @property
    def _one_is_alone(self) -> bool:
        """Whether a receipt is in flight that has to be alone."""
        return any(self._tries[position] > ALONE_FROM for position in self._in_flight)

    def _forget(self, position: int) -> None:
        del self._tries[position]
        self._in_flight.pop(position, None)
        self._due.pop(position, None)
        self._changed.add(position)

    def _pause(self, tries: int) -> float:
        return min(self.settings.retry_ms / 1000 * 2.0 ** (tries - 1), LONGEST_PAUSE_S)
