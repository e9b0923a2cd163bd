"""The consumer of `lifebus notify`: takes receipts under a name, and acknowledges each once its notice was sent."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from lifebus import ConsumerSettings, Delivery, Gap
from lifebus.cli.terminal import clean, say
from lifebus.cli.tools.notify_rules import (
    MAX_COUNTED,
    WAITS,
    Notice,
    NoticeKind,
    NoticeMessage,
    NoticePlan,
    Occasions,
    message_of,
    text_of,
    verdict_on,
)
from lifebus.cli.tools.receipt_facts import Key, folder_of, number_fact, session_of
from lifebus_contract.consumers import MAX_TRIES

if TYPE_CHECKING:
    from lifebus import Bus, Deliveries, Receipt
    from lifebus_contract.views import SessionHead

_SETTINGS: Final = ConsumerSettings(max_in_flight=1_024, ack_wait_ms=600_000)
"""No filter of its own: what is reported may be chosen anew at each start, and the name keeps its place."""

_MANY: Final = 256
_GLANCE_S: Final = 30.0
"""How often the clock is looked at in quiet hours: local time may jump."""

_LAST_S: Final = 3.0
"""How long the last acknowledgement may take once it is asked to stop."""


class SendFault(Exception):
    """A message was not sent; the text says why, and `retry_after_s` when it may be."""

    def __init__(self, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Notifier:
    """Follows receipts under a name and sends what a person may want to know.

    `accepts` says which sessions are meant; `group_s` is how long further notices are waited for.
    """

    def __init__(
        self,
        bus: "Bus",
        name: str,
        plan: NoticePlan,
        send: Callable[[NoticeMessage], Awaitable[None]],
        *,
        accepts: "Callable[[Receipt, SessionHead | None], bool]",
        group_s: float,
    ) -> None:
        self._bus, self._name, self._plan, self._send = bus, name, plan, send
        self._accepts, self._group_s = accepts, group_s
        self._occasions = Occasions(plan)
        self._shown: list[tuple[Delivery, Notice]] = []
        self._counted: list[tuple[Delivery, Notice]] = []
        self._done: list[Delivery] = []
        self._due_s = 0.0

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Send notices until cancelled.

        Raises:
            LifebusError: another process notifies under this name now.
        """
        import anyio  # noqa: PLC0415

        async with self._bus.consume(self._name, _SETTINGS, gaps="yield") as deliveries:
            on_ready()
            while True:
                if self._plan.is_quiet(_now_ms()):
                    await self._settle(deliveries)
                    # What comes meanwhile stays in the ledger, and is summed up afterwards.
                    await anyio.sleep(_GLANCE_S)
                    continue
                item: Delivery | Gap | None = None
                with anyio.move_on_after(self._seconds_left()):
                    item = await anext(deliveries)
                if isinstance(item, Gap):
                    say(f"receipts are gone that nobody was notified of: {item.reason}", color="yellow")
                elif item is not None:
                    await self._take(item)
                if self._seconds_left() <= 0 or len(self._counted) >= MAX_COUNTED:
                    await self._settle(deliveries)
                elif self._done and (deliveries.ready == 0 or len(self._done) >= _MANY):
                    await self._acknowledge(deliveries)

    def _seconds_left(self) -> float:
        waits = self._shown or self._counted
        return self._due_s - time.monotonic() if waits else float("inf")

    async def _take(self, delivery: Delivery) -> None:
        """Put a delivery where it belongs: shown, counted, done with, or given back for a while."""
        receipt, key = delivery.receipt, session_of(delivery.receipt)
        kind = None if key is None else await self._kind_of(receipt, key)
        if key is None or kind is None:
            self._done.append(delivery)
            return
        head = next(iter(await self._bus.sessions(key)), None)
        if not self._accepts(receipt, head):
            self._done.append(delivery)
            return
        notice = _notice(delivery, key, kind, head)
        verdict = verdict_on(notice, _now_ms(), self._plan, still_waits=_still_waits(notice, head))
        if verdict.what == "later":
            self._occasions.forget(receipt, kind)
            await delivery.nack(verdict.delay_ms / 1000)
        elif verdict.what == "drop":
            self._done.append(delivery)
        else:
            # A sum waits until no more comes of what is old; a notice waits for others only so long.
            if verdict.what == "count" or not self._shown:
                self._due_s = time.monotonic() + self._group_s
            (self._shown if verdict.what == "show" else self._counted).append((delivery, notice))

    async def _kind_of(self, receipt: "Receipt", key: Key) -> NoticeKind | None:
        """Return the kind of notice; of a session that is not known yet, what its context was before is read first."""
        if "context_used_pct" in receipt.telemetry_summary and not self._occasions.knows(key):
            names = {"context.pressure_observed", "context.compacted"}
            earlier = self._bus.receipts(
                session=key,
                since="start",
                until_head=True,
                where=lambda one: one.event in names and (one.sequence or 0) < (receipt.sequence or 0),
                gaps="yield",
            )
            async for one in earlier:
                if not isinstance(one, Gap):
                    self._occasions.note_pressure(one, key)
        return self._occasions.kind_of(receipt, key)

    async def _settle(self, deliveries: "Deliveries[Delivery | Gap]") -> None:
        """Send what has gathered, then acknowledge it; what cannot be sent comes again."""
        import anyio  # noqa: PLC0415

        batch = [*self._shown, *self._counted]
        if batch:
            ids = msgspec.json.encode([self._name, *(notice.notice_id for _, notice in batch)])
            message = message_of(
                self._name,
                f"ntc_{hashlib.sha256(ids).hexdigest()[:32]}",
                [notice for _, notice in self._shown],
                [notice for _, notice in self._counted],
                _now_ms(),
            )
            self._shown, self._counted = [], []
            try:
                # Whoever is asked to stop while it sends would send it again at its next start.
                with anyio.CancelScope(shield=True):
                    await self._send(message)
            except SendFault as fault:
                await self._give_back(deliveries, batch, fault)
            else:
                self._done += [delivery for delivery, _ in batch]
        await self._acknowledge(deliveries)

    async def _give_back(
        self, deliveries: "Deliveries[Delivery | Gap]", batch: list[tuple[Delivery, Notice]], fault: SendFault
    ) -> None:
        say(f"not sent: {clean(fault)}", color="yellow")
        for delivery, notice in batch:
            self._occasions.forget(delivery.receipt, notice.kind)
        lost = [notice for delivery, notice in batch if delivery.attempt >= MAX_TRIES]
        if lost:
            what = f"{len(lost)} notices are given up after {MAX_TRIES} tries"
            say(f"{what}; `lifebus clients dead {self._name}` lists them", color="red")
        await deliveries.nack([delivery for delivery, _ in batch], fault.retry_after_s)

    async def _acknowledge(self, deliveries: "Deliveries[Delivery | Gap]") -> None:
        import anyio  # noqa: PLC0415

        done, self._done = self._done, []
        try:
            if done:
                await deliveries.ack(done)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_LAST_S, shield=True):
                await deliveries.ack(done)
            raise


def _notice(delivery: Delivery, key: Key, kind: NoticeKind, head: "SessionHead | None") -> Notice:
    receipt = delivery.receipt
    name = (head.name if head else None) or f"{key[0]}/{key[1]}"
    at_ms = receipt.at_epoch_s * 1000
    since_ms = number_fact(receipt, "waiting_since_ms") if kind in WAITS else None
    return Notice(
        notice_id=str(delivery.cursor),
        kind=kind,
        adapter_id=key[0],
        session=key[1],
        name=name,
        project=folder_of(head.cwd if head else None),
        at_ms=at_ms,
        text=text_of(receipt, kind, name),
        since_ms=(at_ms if since_ms is None else since_ms) if kind in WAITS else None,
    )


def _still_waits(notice: Notice, head: "SessionHead | None") -> bool | None:
    """Whether a wait is still one; None where nobody knows, or the notice is of something else."""
    if notice.since_ms is None or head is None or head.waiting is None:
        return None
    return any((wait.since_ms == notice.since_ms) for wait in head.waiting)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
