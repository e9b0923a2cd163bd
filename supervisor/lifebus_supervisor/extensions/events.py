"""What the bus records, as events for extensions; only what somebody listens to is looked at further."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.signals.log import StoredSignal
from lifebus_contract.extensions import LIFECYCLE_PREFIX, RuntimeEvent
from lifebus_supervisor.extensions.event_queue import EventQueue


class _ReceiptHead(Struct):
    event: str
    receipt_id: str
    at_epoch_s: int


_heads: Final = msgspec.json.Decoder(_ReceiptHead)

Hidden = Callable[[str, str], bool]
"""Whether the events of a session (adapter id, session or thread) are kept from extensions."""


class EventSources:
    """Listens to commits, and submits what extensions are told.

    `wanted` are the types that somebody listens to; `hidden` keeps sessions from extensions that are deleted, or belong
    to the system.  `stamp` writes down a time in milliseconds since 1970, `clock` tells the present one.
    """

    def __init__(
        self,
        queue: EventQueue,
        stamp: Callable[[int], str],
        clock: Callable[[], int],
        hidden: Hidden | None = None,
    ) -> None:
        self._queue, self._stamp, self._clock = queue, stamp, clock
        self._hidden = hidden
        self._wanted: frozenset[str] = frozenset()

    def want(self, types: Collection[str]) -> bool:
        """Say which types somebody listens to; return whether receipts are among them."""
        self._wanted = frozenset(types)
        return any(one.startswith(LIFECYCLE_PREFIX) for one in self._wanted)

    def on_receipts(self, stored: Sequence[StoredReceipt]) -> None:
        """Take the receipts of one commit; connected only while somebody listens to some."""
        for one in stored:
            head = _heads.decode(one.receipt)
            event_type = LIFECYCLE_PREFIX + head.event
            if event_type not in self._wanted:
                continue
            session = one.harness_session_id
            if session is not None and self._is_hidden(one.adapter_id, session):
                continue
            make = _Receipt(event_type, head, one.receipt, self._stamp)
            self._queue.submit(f"{one.adapter_id}/{session or ''}", make, size=len(one.receipt))

    def on_signals(self, adapter_id: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        """Take the signals of one thread and commit."""
        if not self._wanted or (thread and self._is_hidden(adapter_id, thread)):
            return
        for one in signals:
            if one.event_type in self._wanted:
                correlation = f"{adapter_id}/{thread}/{one.sequence}"
                make = _Signal(one, correlation, self._stamp(self._clock()))
                self._queue.submit(f"{adapter_id}/{thread}", make, size=len(one.signal))

    def _is_hidden(self, adapter_id: str, session: str) -> bool:
        return self._hidden is not None and self._hidden(adapter_id, session)


class _Receipt(Struct, frozen=True):
    """Makes the event of a receipt when its turn comes: what waits is not decoded yet."""

    event_type: str
    head: _ReceiptHead
    receipt: bytes
    stamp: Callable[[int], str]

    def __call__(self) -> RuntimeEvent:
        payload: Any = msgspec.json.decode(self.receipt)
        emitted_at = self.stamp(self.head.at_epoch_s * 1000)
        return RuntimeEvent(
            type=self.event_type, payload=payload, emitted_at=emitted_at, correlation_id=self.head.receipt_id
        )


class _Signal(Struct, frozen=True):
    """Makes the event of a signal."""

    stored: StoredSignal
    correlation: str
    emitted_at: str

    def __call__(self) -> RuntimeEvent:
        payload: Any = msgspec.json.decode(self.stored.signal)
        return RuntimeEvent(
            type=self.stored.event_type,
            payload=payload,
            emitted_at=self.emitted_at,
            correlation_id=self.correlation,
        )
