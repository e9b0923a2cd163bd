"""What a named consumer was handed, what waits for another try, and when: a plain state machine.  Pure.

Time comes in as seconds of some monotonic clock.  Whatever must survive a restart is handed out by `take_progress`.
"""

from collections.abc import Collection, Iterable
from typing import Final

from lifebus_broker.state.consumer_state import CursorState, Progress
from lifebus_contract.consumers import MAX_TRIES, ConsumerSettings

ALONE_FROM: Final = 5
"""Tries from which a receipt is handed out alone, so that what falls with it is not blamed as well."""

LONGEST_PAUSE_S: Final = 60.0
"""The longest pause before another try, in seconds."""

SAVE_EVERY: Final = 4096
"""Positions without a match after which how far the consumer is gets saved all the same."""


class Deliveries:
    """The deliveries of one consumer.  `scanned` is how far the ledger was looked at."""

    def __init__(self, state: CursorState) -> None:
        self.settings: ConsumerSettings = state.settings
        self.client_id = state.client_id
        self.epoch = state.epoch
        self.scanned = self._saved = state.scanned
        self.dead = state.dead
        self._tries = dict(state.open)
        self._out: dict[int, float] = {}
        self._due = dict.fromkeys(state.open, 0.0)
        self._changed: set[int] = set()

    @property
    def state(self) -> CursorState:
        """Everything that survives a restart."""
        return CursorState(
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
        """How many receipts were handed out and are not settled."""
        return len(self._tries)

    @property
    def in_flight(self) -> int:
        """How many receipts are with the consumer now."""
        return len(self._out)

    @property
    def unsaved(self) -> bool:
        """Whether something of weight has to be saved."""
        return bool(self._changed) or self.scanned - self._saved >= SAVE_EVERY

    def room(self, now: float) -> int:
        """Return how many new receipts may be handed out; none while a suspicious one is out or about to be."""
        waiting = any(at <= now and self._tries[position] >= ALONE_FROM for position, at in self._due.items())
        if waiting or self._alone:
            return 0
        return max(self.settings.max_in_flight - len(self._tries), 0)

    def expire(self, now: float) -> None:
        """Take back what was not acknowledged in time."""
        self.put_back([position for position, until in self._out.items() if until <= now], now)

    def exhausted(self) -> list[int]:
        """Return what waits and was tried often enough."""
        return sorted(position for position in self._due if self._tries[position] >= MAX_TRIES)

    def due(self, now: float, limit: int) -> list[int]:
        """Return what is to be handed out again: suspicious ones one at a time, while nothing else is out."""
        if self._alone:
            return []
        ready = sorted(position for position, at in self._due.items() if at <= now)
        calm = [position for position in ready if self._tries[position] < ALONE_FROM]
        if calm or self._out:
            return calm[:limit]
        return ready[: min(limit, 1)]

    def next_due(self, now: float) -> float | None:
        """Return when there may be something to do after `now` although nobody says anything."""
        return min((at for at in (*self._due.values(), *self._out.values()) if at > now), default=None)

    def give(self, position: int, now: float) -> int:
        """Hand a receipt out, and return which try it is."""
        self._due.pop(position, None)
        tries = self._tries[position] = self._tries.get(position, 0) + 1
        self._out[position] = now + self.settings.ack_wait_ms / 1000
        self._changed.add(position)
        self.scanned = max(self.scanned, position)
        return tries

    def scan_to(self, position: int) -> None:
        """Note that nothing else up to a position is for this consumer."""
        self.scanned = max(self.scanned, position)

    def settle(self, positions: Iterable[int] = (), through: int = 0) -> int:
        """Take what the consumer is done with, single positions and all up to one; return how many were open."""
        done = {position for position in positions if position in self._tries}
        done.update(position for position in self._tries if position <= through)
        for position in done:
            self._forget(position)
        return len(done)

    def put_back(self, positions: Iterable[int], now: float, delay: float | None = None) -> int:
        """Take back what is out, to be handed out after a delay in seconds or the usual pause; return how many."""
        back = [position for position in positions if position in self._out]
        for position in back:
            del self._out[position]
            self._due[position] = now + (self._pause(self._tries[position]) if delay is None else delay)
        return len(back)

    def give_back(self, unseen: Collection[int] = ()) -> None:
        """The consumer has left: what it held is due at once; for what it has not looked at that try does not count."""
        for position in list(self._out):
            del self._out[position]
            self._due[position] = 0.0
            if position in unseen:
                self._tries[position] -= 1
                self._changed.add(position)

    def bury(self, position: int) -> int:
        """Give a receipt up, and return how often it was tried."""
        tries = self._tries[position]
        self._forget(position)
        self.dead += 1
        return tries

    def skip(self, through: int) -> None:
        """Go on after a position: what lies up to it is lost, and the consumer knows."""
        self.settle(through=through)
        self.scan_to(through)

    def take_progress(self) -> Progress | None:
        """Return what has to be saved, None if it is nothing of weight; it counts as saved then."""
        if not self.unsaved:
            return None
        changed, self._changed = sorted(self._changed), set()
        self._saved = self.scanned
        return Progress(
            scanned=self.scanned,
            tried=tuple((position, self._tries[position]) for position in changed if position in self._tries),
            settled=tuple(position for position in changed if position not in self._tries),
            dead=self.dead,
        )

    def take_state(self) -> CursorState:
        """Return everything, which counts as saved then."""
        self._changed, self._saved = set(), self.scanned
        return self.state

    @property
    def _alone(self) -> bool:
        """Whether a suspicious receipt is out."""
        return any(self._tries[position] > ALONE_FROM for position in self._out)

    def _forget(self, position: int) -> None:
        del self._tries[position]
        self._out.pop(position, None)
        self._due.pop(position, None)
        self._changed.add(position)

    def _pause(self, tries: int) -> float:
        return min(self.settings.retry_ms / 1000 * 2.0 ** (tries - 1), LONGEST_PAUSE_S)
