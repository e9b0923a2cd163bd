"""The receipts of runs on their way into the ledger: behind the records, in order within a run, in batches."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from msgspec import Struct

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_contract import Emission, LifecycleEvent
from lifebus_contract.codes import TEMPORARY
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.runtime.bus.receipts import CLIENT_ID, failure_of

MAX_WAITING: Final = 256
"""So many records of a run may wait for their receipts; then the run waits as well."""

_BATCH: Final = 128
_AGAIN_S: Final = 1.0

_log = structlog.get_logger("lifebus.runtime")


class _Reported(Struct, frozen=True):
    """The emissions of one record."""

    number: int
    emissions: tuple[Emission, ...]


class RunReceipts:
    """The receipts of one run.  `emitted` is the number up to which all are durable."""

    __slots__ = ("_emitter", "_is_emitting", "_on_progress", "_waiting", "emitted")

    def __init__(self, emitter: "ReceiptEmitter", emitted: int, on_progress: Callable[[], None]) -> None:
        self.emitted = emitted
        self._emitter = emitter
        self._on_progress = on_progress
        self._waiting: list[_Reported] = []
        self._is_emitting = False

    @property
    def waiting(self) -> int:
        """How many records wait for their receipts."""
        return len(self._waiting)

    def add(self, number: int, emissions: tuple[Emission, ...]) -> None:
        """Take the emissions of a durable record; returns at once."""
        self._waiting.append(_Reported(number, emissions))
        self._pump()

    def _pump(self) -> None:
        """Hand the next batch over, unless one is under way: the bus orders what comes in one call only."""
        if self._is_emitting or not self._waiting:
            return
        count, dispatch = self._next_batch()
        batch = [emission for one in self._waiting[:count] for emission in one.emissions]
        if not batch:
            self._take(count)
            return
        self._is_emitting = True
        self._emitter.emit(batch, dispatch, lambda results: self._emitted(count, results))

    def _next_batch(self) -> tuple[int, bool]:
        """Return how many records go together, and whether clients are asked about them.

        What no client is to be asked about is committed in one transaction; the rest goes one by one.  The end of a
        frame does not go with its opening: the bus would ask the ledger about a frame of which it has seen nothing yet.
        """
        dispatch = self._emitter.needs_dispatch(self._waiting[0].emissions)
        count = size = 0
        opened: set[str] = set()
        for one in self._waiting:
            size += len(one.emissions)
            if count and (size > _BATCH or self._emitter.needs_dispatch(one.emissions) is not dispatch):
                break
            if opened & set(_frames_of(one.emissions, LifecycleEvent.FRAME_ENDED)):
                break
            opened.update(_frames_of(one.emissions, LifecycleEvent.FRAME_OPENED))
            count += 1
        return count, dispatch

    def _emitted(self, count: int, results: Sequence[EmissionResult]) -> None:
        self._is_emitting = False
        refusals = [result.refusal for result in results if result.refusal is not None]
        if any(refusal.code in TEMPORARY for refusal in refusals):
            # All of them again: those that were recorded are known by their keys.
            asyncio.get_running_loop().call_later(_AGAIN_S, self._pump)
            return
        for refusal in refusals:
            if refusal.code == "closed":  # the broker stops; the next one emits them
                return
            _log.warning("run_receipt_refused", code=refusal.code, detail=refusal.detail)
        self._take(count)

    def _take(self, count: int) -> None:
        self.emitted = self._waiting[count - 1].number
        del self._waiting[:count]
        self._on_progress()
        # Not at once: a refusal that comes at once would recurse.
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._pump)


class ReceiptEmitter:
    """Hands the emissions of runs to the bus."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def emit(self, emissions: Sequence[Emission], dispatch: bool, done: Callable[[list[EmissionResult]], None]) -> None:
        """Hand emissions over, and have `done` called once they are durable or refused."""
        self._bus.submit(CLIENT_ID, emissions, done, dispatch=dispatch)

    def needs_dispatch(self, emissions: Sequence[Emission]) -> bool:
        """Whether some client has something to say to one of these; ours has not where nothing failed."""
        return any(self._is_asked(one.request.event, one) for one in emissions)

    def _is_asked(self, event: LifecycleEvent, emission: Emission) -> bool:
        interested = self._bus.clients.interested_in(event, FLOW_ADAPTER)
        if not interested:
            return False
        others = any(client.client_id != FAILURES for client in interested)
        return others or failure_of(event, emission.telemetry) is not None


def _frames_of(emissions: Sequence[Emission], event: LifecycleEvent) -> list[str]:
    return [
        one.request.frame_context.frame_id
        for one in emissions
        if one.request.event is event and one.request.frame_context is not None
    ]


FAILURES: Final = "lifebus.flow.failures"
"""The client whose receipts say how a try failed, and what a caller may do next."""
