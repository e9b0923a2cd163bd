"""The signals of app-servers: numbered per thread, kept in the journal, published, dropped when there are too many.

A signal is no receipt: it is large, it repeats the harness's own output, and it may be dropped.  It is stored in the
journal beside the receipts, within the bound that the settings give.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self
from urllib.parse import quote, unquote

import anyio
import msgspec
import structlog
from msgspec import Struct

from lifebus_broker.ledger.records import append_records
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_broker.signals.quota import to_drop
from lifebus_broker.state.observers import Origins, encode_throughs
from lifebus_contract import BrokerBusy, LifebusError
from lifebus_contract.fields import MAX_INTEGER

_PREFIX: Final = "signal/"
_OBSERVED: Final = "observed"
_DELETED: Final = "purged/"
"""Before the name of a deleted thread: a stream whose last record says up to which number it was deleted."""
_CHECK_BYTES: Final = 1_048_576
_SUMMARY_RECORDS: Final = 512
_SLICE_BYTES: Final = 262_144
_log = structlog.get_logger("lifebus.signals")


class NewSignal(Protocol):
    """A signal that is to be recorded (fulfilled by `lifebus_transports.messages.signals.ObservedSignal`)."""

    @property
    def thread(self) -> str:
        """The thread it is about; empty for the app-server process itself."""
        ...

    @property
    def event_type(self) -> str:
        """Its name, such as ``app_server.turn.started``."""
        ...

    @property
    def signal(self) -> bytes:
        """The whole envelope as JSON."""
        ...


class StoredSignal(Struct, frozen=True):
    """A recorded signal: its number in its thread, its name, its envelope as JSON bytes."""

    sequence: int
    event_type: str
    signal: bytes


class SignalSlice(Struct, frozen=True, kw_only=True):
    """Signals of one thread in order, as `ports.Page` holds receipts; `deleted` says why they are gone."""

    signals: tuple[StoredSignal, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool = False
    deleted: bool = False


class ThreadTip(Struct, frozen=True):
    """The ends of a thread: its newest sequence, and the newest one that is no longer kept."""

    thread: str
    head: int
    floor: int


SignalListener = Callable[[str, str, Sequence[StoredSignal]], None]
"""Called on the event loop with adapter, thread and new signals in order; must not block."""


class SignalLog:
    """Records the signals that observers send.  Made by `open`; `enforce_quota` must run beside it.

    `stored` and `dropped` count signals since the start, `epoch` names the history that the sequences belong to.
    """

    def __init__(self, journal: Journal, *, epoch: str, keep_bytes: int) -> None:
        self.epoch = epoch
        self.stored = self.dropped = 0
        self._journal = journal
        self._keep_bytes = keep_bytes
        self._listeners: list[SignalListener] = []
        self._origins = Origins()
        self._summarised = self._last_observation = 0
        self._unchecked = self._check_at = max(_CHECK_BYTES, keep_bytes // 32)  # due at once
        self._due = anyio.Event()
        self._changed: dict[tuple[str, str], int] = {}

    @classmethod
    async def open(cls, journal: Journal, *, epoch: str, keep_bytes: int) -> Self:
        """Return a log that knows up to which observation each observer is recorded.

        `keep_bytes` bounds what is kept; it is exceeded a little between two checks.

        Raises:
            LifebusError: the journal cannot be read.
        """
        log = cls(journal, epoch=epoch, keep_bytes=keep_bytes)
        complete = False
        while not complete:
            page = await journal.read(_OBSERVED, log._last_observation)
            log._summarised = log._summarised or page.floor
            for record in page.records:
                log._observe(record)
            complete = page.complete
        return log

    def listen(self, listener: SignalListener) -> None:
        """Add a listener, called with every signal from now on once it is durable."""
        self._listeners.append(listener)

    def through(self, origin: str) -> int:
        """Return the number of an origin's newest recorded observation, 0 where none is known."""
        return self._origins.through(origin)

    async def record(self, origin: str, through: int, adapter_id: str, signals: Sequence[NewSignal]) -> None:
        """Record signals, and that an origin has sent everything up to a number; return when both are durable.

        Cancelling the caller does not undo it.

        Raises:
            BrokerBusy: too much is waiting to be written or dropped; nothing was recorded.
            LifebusError: the journal refused; nothing was recorded.
        """
        # Backpressure: whoever sends faster than old signals are dropped has to wait.
        if self._unchecked > 8 * self._check_at:
            raise BrokerBusy("too many signals came before old ones could be dropped; try again", code="busy")
        records = [_new_record(adapter_id, one.thread, one.event_type, one.signal) for one in signals]
        # One append: an observer that sends again after a crash can tell from `through` what is recorded already.
        await self._write([*records, NewRecord(_OBSERVED, encode_throughs({origin: through}))])

    def new_records(self, adapter_id: str, thread: str, signals: Sequence[tuple[str, bytes]]) -> list[NewRecord]:
        """Return signals as records, each given as its name and its envelope as JSON; `append_beside` appends them."""
        return [_new_record(adapter_id, thread, event_type, signal) for event_type, signal in signals]

    def append_beside(
        self,
        journal: Journal,
        records: Sequence[NewRecord],
        signals: Sequence[NewRecord],
        done: Callable[[list[Record] | Refusal], None],
    ) -> Refusal | None:
        """Append records to a journal, and signals (`new_records`) with them; publish these after `done` was called.

        A change of state and its signal are durable together.
        It is one append, unless signals are not kept and have a journal of their own: there they come after the records
        are durable, and are lost where no room is left in it.
        """

        def publish(result: list[Record] | Refusal) -> None:
            if isinstance(result, Refusal):
                _log.warning("signals.not_published", detail=result.detail)
            else:
                self._publish(result)

        def committed(result: list[Record] | Refusal) -> None:
            done(result)
            if isinstance(result, Refusal):
                return
            if journal is self._journal:
                self._publish(result)
            elif signals and (refusal := self._journal.append(signals, publish)) is not None:
                publish(refusal)

        together = [*records, *signals] if journal is self._journal else records
        return journal.append(together, committed)

    async def drop_through(self, adapter_id: str, thread: str, through: int) -> None:
        """Drop the signals of a thread up to a number: who comes too late for them gets a gap.

        Raises:
            LifebusError: the journal takes no writes now.
        """
        for tip in await self.threads(adapter_id, thread):
            await self._drop(_stream_of(adapter_id, thread), through, tip.floor)

    async def read(self, adapter_id: str, thread: str, after: int, limit: int) -> SignalSlice:
        """Return signals of a thread after a sequence, or that those are gone."""
        page = await self._journal.read(_stream_of(adapter_id, thread), after, limit, _SLICE_BYTES)
        if after < page.floor:
            return SignalSlice(
                signals=(),
                next=page.floor,
                head=page.head,
                floor=page.floor,
                complete=False,
                snapshot_required=True,
                deleted=after < await self._deleted_through(adapter_id, thread),
            )
        signals = tuple(_stored(record) for record in page.records)
        # A page may be cut short by its bytes; only a complete one reaches the head.
        last = max(after, page.head) if page.complete else signals[-1].sequence
        return SignalSlice(signals=signals, next=last, head=page.head, floor=page.floor, complete=page.complete)

    async def threads(self, adapter_id: str, thread: str | None = None) -> list[ThreadTip]:
        """Return the threads of an adapter that ever had a signal, or one of them."""
        name = _stream_of(adapter_id, thread or "")
        streams = await self._journal.streams(name)
        wanted = streams if thread is None else [stream for stream in streams if stream.stream == name]
        return [ThreadTip(stream.stream[len(_stream_of(adapter_id)) :], stream.head, stream.floor) for stream in wanted]

    async def kept_threads(self) -> list[tuple[str, str, int]]:
        """Return each thread that has signals which are kept: its adapter, its name and its newest sequence."""
        kept = [stream for stream in await self._journal.streams(_PREFIX) if stream.head > stream.floor]
        return [(*_read_stream(stream.stream), stream.head) for stream in kept]

    async def forget(self, adapter_id: str, thread: str) -> None:
        """Drop everything of a deleted thread, and remember that it was; its sequence goes on where it was.

        Raises:
            LifebusError: the journal takes no writes now.
        """
        stream = _stream_of(adapter_id, thread)
        for tip in await self.threads(adapter_id, thread):
            # First the mark: where the drop does not come after it, the batch comes again, and with it this.
            if tip.head > await self._deleted_through(adapter_id, thread):
                await self._write([NewRecord(_mark_of(stream), msgspec.msgpack.encode(tip.head))])
            await self._drop(stream, MAX_INTEGER, tip.floor)

    async def _deleted_through(self, adapter_id: str, thread: str) -> int:
        """Return up to which number a thread was deleted, 0 where it was not."""
        page = await self._journal.read(_mark_of(_stream_of(adapter_id, thread)))
        return max((msgspec.msgpack.decode(record.body, type=int) for record in page.records), default=0)

    def take_changed(self) -> dict[tuple[str, str], int]:
        """Return the newest sequence of each (adapter, thread) that changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    async def enforce_quota(self) -> None:
        """Drop the oldest signals whenever enough new ones came in, until cancelled."""
        while True:
            self._due = anyio.Event()  # replaced before the check, so that what comes in during it is not missed
            if self._is_due():
                try:
                    await self._enforce()
                except LifebusError as fault:
                    _log.warning("signals.quota_not_enforced", detail=fault.detail)
            await self._due.wait()

    def _is_due(self) -> bool:
        return self._unchecked >= self._check_at or self._last_observation - self._summarised >= _SUMMARY_RECORDS

    async def _enforce(self) -> None:
        """Drop until what is kept is within its bound, and summarise the records about origins."""
        self._unchecked = 0
        while excess := to_drop(await self._journal.streams(_PREFIX, kept=True), self._keep_bytes):
            for stream, through in excess:
                await self._drop(stream.stream, through, stream.floor)
        # Taken before the write: what is recorded during it is newer than the summary and has to stay.
        last = self._last_observation
        if last - self._summarised >= _SUMMARY_RECORDS:
            await self._write([NewRecord(_OBSERVED, self._origins.summary())])
            self._summarised = await self._journal.drop(_OBSERVED, last)

    async def _drop(self, stream: str, through: int, floor: int) -> None:
        self.dropped += max(0, await self._journal.drop(stream, through) - floor)

    async def _write(self, records: Sequence[NewRecord]) -> None:
        def on_commit(written: list[Record]) -> None:
            for record in written:
                if record.stream == _OBSERVED:
                    self._observe(record)
            self._publish(written)

        await append_records(self._journal, records, on_commit)

    def _publish(self, records: Sequence[Record]) -> None:
        """Hand those of the records that are signals to the listeners, grouped by thread: they are durable now.

        Called from within the callback of `Journal.append`, in the order of commits: a later call could come behind a
        younger signal of the same thread.
        """
        threads: dict[str, list[StoredSignal]] = {}
        for record in records:
            if not record.stream.startswith(_PREFIX):
                continue
            threads.setdefault(record.stream, []).append(_stored(record))
            self._unchecked += len(record.body)
        if self._is_due():
            self._due.set()
        for stream, signals in threads.items():
            adapter_id, thread = _read_stream(stream)
            self.stored += len(signals)
            self._changed[adapter_id, thread] = signals[-1].sequence
            for listener in self._listeners:
                try:
                    listener(adapter_id, thread, signals)
                except Exception:  # noqa: BLE001  one that fails does not hurt the others
                    _log.exception("signals.listener_failed")

    def _observe(self, record: Record) -> None:
        self._origins.apply(record.body)
        self._last_observation = record.number


def _new_record(adapter_id: str, thread: str, event_type: str, signal: bytes) -> NewRecord:
    return NewRecord(_stream_of(adapter_id, thread), msgspec.msgpack.encode((event_type, signal)))


def _stream_of(adapter_id: str, thread: str = "") -> str:
    return f"{_PREFIX}{quote(adapter_id, safe='')}/{thread}"


def _mark_of(stream: str) -> str:
    return _DELETED + stream.removeprefix(_PREFIX)


def _read_stream(stream: str) -> tuple[str, str]:
    _, adapter_id, thread = stream.split("/", 2)
    return unquote(adapter_id), thread


def _stored(record: Record) -> StoredSignal:
    event_type, signal = _bodies.decode(record.body)
    return StoredSignal(record.number, event_type, signal)


_bodies: Final = msgspec.msgpack.Decoder(tuple[str, bytes])
