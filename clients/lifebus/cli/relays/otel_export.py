"""Receipts as spans and log records, posted to a collector: what `lifebus otel` hands on."""

import gzip
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lifebus.cli.terminal import clean, say
from lifebus.cli.tools.notify_loop import SendFault
from lifebus.cli.tools.receipt_facts import Key, session_of
from lifebus_contract import LifebusError, Receipt
from lifebus_contract.codec import decode_receipt

if TYPE_CHECKING:
    from lifebus import Bus, Delivery
    from lifebus_supervisor.runtime.inbox.channels.http_post import PostAnswer
    from lifebus_supervisor.traces.endpoints import Endpoint
    from lifebus_supervisor.traces.session_spans import Applied, SessionSpans
    from lifebus_supervisor.traces.spans import Attributes, LogRecord, TraceSpan
    from lifebus_transports.messages.reads import BackfillPage

MAX_SESSIONS: Final = 1_024
"""How many sessions are remembered; of another one the history is read again when it goes on."""

_PAGE: Final = 512
_TAKEN: Final = range(200, 300)
_MOST_ANSWERED: Final = 65_536
_TOO_LARGE: Final = 413
_ABSENT: Final = frozenset({404, 405, 501})
_BAD: Final = 400

Encode = Callable[[Sequence[Any], "Attributes", str], bytes]
Refused = Callable[[bytes], tuple[int, str]]


@dataclass(frozen=True)
class OtlpSignal:
    """One of what is exported: where it goes, its form, and what an answer says of it."""

    endpoint: "Endpoint"
    what: str
    encode: Encode
    refused: Refused


class Exporter:
    """Makes spans and log records of deliveries, and posts them; the same deliveries may come again.

    A session's open spans are made of its receipts alone: of a session that this process has not followed from its
    beginning, they are read first.
    """

    def __init__(
        self, bus: "Bus", signals: dict[str, OtlpSignal], origin: tuple["Attributes", str], adapters: frozenset[str]
    ) -> None:
        self._bus, self._signals, self._origin, self._adapters = bus, signals, origin, adapters
        self._sessions: OrderedDict[Key, SessionSpans] = OrderedDict()
        self._epoch, self._taken = "", 0
        self._spans: list[TraceSpan] = []
        self._records: list[LogRecord] = []

    async def send(self, deliveries: "Sequence[Delivery]") -> None:
        """Post what follows from deliveries.

        Raises:
            SendFault: it was not taken yet, or the history of a session could not be read.
        """
        for delivery in deliveries:
            await self._take(delivery)
        await self._post("traces", self._spans)
        await self._post("logs", self._records)

    async def _take(self, delivery: "Delivery") -> None:
        """Have a delivery become spans and a record, unless it did before."""
        from lifebus_supervisor.traces.log_records import log_record  # noqa: PLC0415

        if delivery.cursor.epoch != self._epoch:
            # Another history: positions begin anew.
            self._epoch, self._taken = delivery.cursor.epoch, 0
            self._sessions.clear()
        if delivery.position <= self._taken:
            return
        receipt = delivery.receipt
        if not self._adapters or receipt.adapter_id in self._adapters:
            applied = await self._apply(receipt, delivery.position)
            self._spans += applied.spans
            self._records.append(log_record(receipt, self._epoch, delivery.position, applied.during))
        self._taken = delivery.position

    async def _apply(self, receipt: Receipt, position: int) -> "Applied":
        from lifebus_supervisor.traces.session_spans import Applied, without_session  # noqa: PLC0415

        key = session_of(receipt)
        if key is None:
            found = without_session(receipt)
            return Applied((), None) if found is None else Applied((found,), found.context)
        if key not in self._sessions:
            self._sessions[key] = await self._read(key, receipt, position)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return self._sessions[key].apply(receipt, position)

    async def _read(self, key: Key, receipt: Receipt, position: int) -> "SessionSpans":
        """Return what is known of a session before a receipt of it."""
        from lifebus_supervisor.traces.session_spans import SessionSpans  # noqa: PLC0415

        session, after, is_complete = SessionSpans(*key), 0, receipt.sequence == 1
        while not is_complete:
            page = await self._page(key, after)
            rows = [row for row in page.rows if row.position < position]
            for row in rows:
                session.apply(decode_receipt(row.receipt), row.position)
            after, is_complete = page.next, page.complete or len(rows) < len(page.rows)
        return session

    async def _page(self, key: Key, after: int) -> "BackfillPage":
        from lifebus_transports.messages.reads import Backfill  # noqa: PLC0415

        query = Backfill(epoch=self._epoch, after=after, limit=_PAGE, session=key)
        try:
            page = await self._bus.read(query)
            if page.snapshot_required:  # what was pruned is gone; the session is known from there on
                page = await self._bus.read(Backfill(epoch=self._epoch, after=page.floor, limit=_PAGE, session=key))
        except LifebusError as fault:
            raise SendFault(f"the session's earlier receipts cannot be read: {fault.detail}") from None
        return page

    async def _post(self, name: str, pending: "list[TraceSpan] | list[LogRecord]") -> None:
        """Post what waits of a signal; what was taken waits no more."""
        signal = self._signals.get(name)
        if signal is not None:
            await self._post_all(signal, pending)
        pending.clear()

    async def _post_all(self, signal: OtlpSignal, items: Sequence[object]) -> None:
        """Post items, in halves where they are too large for the collector.

        Raises:
            SendFault: the collector did not take them now, and may later.
        """
        if not items:
            return
        answer = await _posted(signal.endpoint, signal.encode(items, *self._origin))
        if answer.status == _TOO_LARGE and len(items) > 1:
            for half in (items[: len(items) // 2], items[len(items) // 2 :]):
                await self._post_all(signal, half)
        elif answer.status in {_BAD, _TOO_LARGE}:
            # OTLP forbids to send again what a collector cannot read.
            _say_refused(signal, len(items), f"it answered {answer.status}")
        elif answer.status in _ABSENT and await self._takes_traces_alone(signal):
            del self._signals[signal.endpoint.signal]
            say(
                f"the collector takes no {signal.what}: it answered {answer.status}; spans alone are sent",
                color="yellow",
            )
        elif answer.status not in _TAKEN:
            raise SendFault(f"{signal.what}: the collector answered {answer.status}", answer.retry_after_s)
        else:
            _say_partly(signal, answer.body)

    async def _takes_traces_alone(self, signal: OtlpSignal) -> bool:
        """Whether logs were refused by a backend of traces; a wrong address takes neither, and is tried again."""
        traces = self._signals.get("traces")
        if traces is None or signal is traces:
            return False
        return (await _posted(traces.endpoint, traces.encode((), *self._origin))).status in _TAKEN


async def _posted(endpoint: "Endpoint", body: bytes) -> "PostAnswer":
    import anyio  # noqa: PLC0415

    from lifebus_supervisor.runtime.inbox.channels.http_post import PostFault, post  # noqa: PLC0415

    headers = {"User-Agent": "lifebus", **endpoint.headers, "Content-Type": "application/x-protobuf"}
    if endpoint.gzip:
        headers["Content-Encoding"], body = "gzip", gzip.compress(body, mtime=0)
    try:
        with anyio.fail_after(endpoint.seconds):
            return await post(endpoint.url, headers, body, _MOST_ANSWERED)
    except PostFault as fault:
        raise SendFault(f"{endpoint.signal}: {fault}") from None
    except TimeoutError:
        raise SendFault(f"{endpoint.signal}: the collector did not answer within {endpoint.seconds:g} s") from None


def _say_partly(signal: OtlpSignal, answer: bytes) -> None:
    try:
        count, why = signal.refused(answer)
    except ValueError:
        # Servers that are no collectors of their own answer in JSON, or with nothing of use.
        return
    if count or why:
        _say_refused(signal, count, why or "it does not say why")


def _say_refused(signal: OtlpSignal, count: int, why: str) -> None:
    say(f"the collector refused {count} {signal.what}, which are not sent again: {clean(why)[:300]}", color="yellow")


def signals_to(endpoints: "Sequence[Endpoint]") -> dict[str, OtlpSignal]:
    """Return what is exported to endpoints.

    Raises:
        ModuleNotFoundError: the extra is not installed.
    """
    from lifebus_supervisor.traces import otlp  # noqa: PLC0415

    forms: dict[str, tuple[str, Encode, Refused]] = {
        "traces": ("spans", otlp.encode_spans, otlp.refused_spans),
        "logs": ("log records", otlp.encode_logs, otlp.refused_logs),
    }
    return {one.signal: OtlpSignal(one, *forms[one.signal]) for one in endpoints}
