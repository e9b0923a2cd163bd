"""Emissions under way: those of one tick of the event loop share a message, and what is not answered is sent again."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from lifebus._internal.answers import decode_answer, unreadable
from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection
from lifebus_contract import (
    DeadlineExceeded,
    Emission,
    FailureClass,
    InternalError,
    InvalidRequest,
    LifebusError,
    encode_msgpack,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import Emit, EmitAnswer, EmitResult

_BATCH: Final = 64
_ATTEMPT_S: Final = 1.0
_PAUSE_S: Final = (0.05, 1.0)


class EmitCall:
    """The emissions of one caller, and what became of each; `sent` are the messages that they went out in.

    `settled` gets a result once each emission has one.
    """

    __slots__ = ("emissions", "is_over", "missing", "results", "sent", "settled")

    def __init__(self, emissions: Sequence[Emission]) -> None:
        self.emissions = emissions
        self.results: list[EmitResult | None] = [None] * len(emissions)
        self.missing = len(emissions)
        self.settled: asyncio.Future[None] | None = None
        self.sent: list[_SentMessage] = []
        self.is_over = False

    def patience(self, seconds: float) -> float:
        """Return how long to wait for an answer, of so many seconds: where all carry a key they can be sent again."""
        keyed = all(emission.request.idempotency_key for emission in self.emissions)
        return min(_ATTEMPT_S, seconds) if keyed else seconds

    def answers(self) -> list[EmitResult] | None:
        """Return the results once each emission has one, and none was refused by a broker that was busy."""
        results = [result for result in self.results if result is not None and not _is_busy(result)]
        return results if len(results) == len(self.results) else None

    def items(self) -> "list[_Item]":
        """Return every emission."""
        return [(self, index) for index in range(len(self.emissions))]

    def is_done(self, index: int) -> bool:
        """Whether nobody waits for this emission's result any more."""
        return self.is_over or self.results[index] is not None

    def give(self, index: int, result: EmitResult) -> None:
        """Take the result of an emission; the first one counts."""
        if self.is_done(index):
            return
        self.results[index] = result
        self.missing -= 1
        if not self.missing and self.settled is not None and not self.settled.done():
            self.settled.set_result(None)

    def open(self) -> list[int]:
        """Return what is to be sent again: what has no result, and what a busy broker did not store."""
        return [index for index, result in enumerate(self.results) if result is None or _is_busy(result)]

    def retry(self) -> "list[_Item]":
        """Forget that the broker was busy, and return what is to be sent again."""
        items = self.open()
        for index in items:
            self.results[index] = None
        self.missing = len(items)
        return [(self, index) for index in items]


_Item = tuple[EmitCall, int]
"""One emission of a call."""


class _SentMessage(Struct, eq=False):
    """A message, what it holds, and the number that its answer bears."""

    items: Sequence[_Item]
    number: int = 0


class Outbox:
    """Sends emissions under a client's name and returns what became of each."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        self.connection = connection
        self._client_id = client_id
        self._waiting: list[_Item] = []
        self._under_way: set[_SentMessage] = set()

    async def record(self, emissions: Sequence[Emission], *, seconds: float) -> list[EmitResult]:
        """Return the results, in order; a refusal takes the place of its result.

        Where every emission carries an idempotency key, they are sent again until an answer comes.  The first answer
        counts, whichever attempt it belongs to: only that of the first attempt may bring payloads to deliver.

        Raises:
            DeadlineExceeded: no answer within `seconds`; what became of the emissions is unknown.
        """
        call = EmitCall(emissions)
        deadline = asyncio.get_running_loop().time() + seconds
        self._queue(call.retry())
        try:
            await _settled(call, call.patience(seconds))
            return call.answers() or await self._ask_again(call, deadline, seconds)
        finally:
            self._leave(call)

    async def ask_again(self, call: EmitCall, *, left: float, seconds: float) -> list[EmitResult]:
        """Return the results of a call that was sent by other means, but has no answer, or met a busy broker.

        Raises:
            DeadlineExceeded: as `record`; `left` of its `seconds` are left.
        """
        try:
            return await self._ask_again(call, asyncio.get_running_loop().time() + left, seconds)
        finally:
            self._leave(call)

    def encode(self, call: EmitCall) -> bytes | None:
        """Return the emissions of a call as one message; None where they have to be sent as several."""
        try:
            return self._encode(call.items()) if len(call.emissions) <= _BATCH else None
        except InvalidRequest:
            return None

    async def _ask_again(self, call: EmitCall, deadline: float, seconds: float) -> list[EmitResult]:
        loop, backoff = asyncio.get_running_loop(), Backoff(*_PAUSE_S)
        while (results := call.answers()) is None:
            left = deadline - loop.time()
            if left <= 0:
                return _last_word(call, seconds)
            await asyncio.sleep(min(left, _asked_pause(call) + backoff.next()))
            self._queue(call.retry())
            left = deadline - loop.time()
            await _settled(call, call.patience(left))
        return results

    def _queue(self, items: Sequence[_Item]) -> None:
        """Send emissions at once where no message is under way, else in one message with the others of this tick."""
        is_first = not self._waiting
        self._waiting += items
        if not self._under_way:
            self._flush()
        elif is_first:
            asyncio.get_running_loop().call_soon(self._flush)  # after every caller of this tick has queued

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        # Bounded, so that one long list does not delay what other tasks send.
        for start in range(0, len(waiting), _BATCH):
            self._send(_undone(waiting[start : start + _BATCH]))

    def _send(self, items: Sequence[_Item]) -> None:
        """Send one message; halve it when it cannot be sent, so that one emission fails alone."""
        if not items:
            return
        sent = _SentMessage(items)
        try:
            sent.number = self.connection.start("emit", self._encode(items), partial(self._settle, sent))
        except InvalidRequest as fault:
            self._halve(items, fault)
        except LifebusError as fault:
            _refuse(items, fault)
        else:
            self._under_way.add(sent)
            for call in {call for call, _ in items}:
                call.sent.append(sent)

    def _encode(self, items: Sequence[_Item]) -> bytes:
        emissions = tuple([call.emissions[index] for call, index in items])
        try:
            body = encode_msgpack(Emit(client_id=self._client_id, emissions=emissions))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError) as fault:
            raise InvalidRequest(f"the emission cannot be written down: {fault}"[:1024], code="malformed") from None
        if len(body) > MAX_MESSAGE_BYTES:
            raise InvalidRequest(
                f"an emission may take {MAX_MESSAGE_BYTES} bytes",
                failure_class=FailureClass.PAYLOAD_TOO_LARGE,
                code="too_large",
            )
        return body

    def _halve(self, items: Sequence[_Item], fault: InvalidRequest) -> None:
        """Send a refused message as two, until the one emission at fault is alone in its message."""
        if len(items) == 1:
            _refuse(items, fault)
            return
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            self._send(_undone(half))

    def _settle(self, sent: _SentMessage, answer: bytes | LifebusError) -> None:
        """Give every caller of a message its own result."""
        self._under_way.discard(sent)
        items = sent.items
        # The broker refuses a malformed message as a whole; the others in it are innocent.
        if isinstance(answer, InvalidRequest):
            self._halve(items, answer)
        elif isinstance(answer, LifebusError):
            _refuse(items, answer)
        else:
            _give(items, answer)

    def _leave(self, call: EmitCall) -> None:
        """End a call, and the messages whose answers no caller waits for any more."""
        call.is_over = True
        for sent in call.sent:
            if not _undone(sent.items):
                self.connection.forget(sent.number)
                self._under_way.discard(sent)


def take_answer(call: EmitCall, answer: bytes | LifebusError) -> None:
    """Give a call that was one message its results; where the message was refused as malformed it gets none."""
    if isinstance(answer, InvalidRequest):
        return
    if isinstance(answer, LifebusError):
        _refuse(call.items(), answer)
    else:
        _give(call.items(), answer)


def _give(items: Sequence[_Item], answer: bytes) -> None:
    """Give every caller of an answered message its result."""
    try:
        results = decode_answer(answer, EmitAnswer).results
        if len(results) != len(items):
            raise unreadable(f"{len(results)} results for {len(items)} emissions")
    except InternalError as fault:
        _refuse(items, fault)
        return
    for (call, index), result in zip(items, results, strict=True):
        call.give(index, result)


async def _settled(call: EmitCall, seconds: float) -> None:
    """Wait until every emission has a result, at most so long."""
    if not call.missing:
        return
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[None] = loop.create_future()
    call.settled = settled
    # A timer and no scope: it ends the wait, and cancels nothing.
    timer = loop.call_later(seconds, _end, settled)
    try:
        await settled
    finally:
        timer.cancel()


def _end(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _undone(items: Sequence[_Item]) -> list[_Item]:
    """Return the emissions that somebody still waits for."""
    return [item for item in items if not item[0].is_done(item[1])]


def _is_busy(result: EmitResult) -> bool:
    """Whether the broker was busy and stored nothing."""
    return result.refusal is not None and result.refusal.code == "busy"


def _last_word(call: EmitCall, seconds: float) -> list[EmitResult]:
    """Return the results at the end of a call's time: also those of a broker that was busy until then.

    Raises:
        DeadlineExceeded: an emission has none.
    """
    results = [result for result in call.results if result is not None]
    if len(results) < len(call.results):
        raise DeadlineExceeded(f"no acknowledgement within {seconds:g} s; it may be recorded")
    return results


def _asked_pause(call: EmitCall) -> float:
    """Return the longest pause that a busy broker asks for, in seconds."""
    refusals = (result.refusal for result in call.results if result is not None and _is_busy(result))
    return max((refusal.retry_after_ms for refusal in refusals if refusal is not None), default=0) / 1000


def _refuse(items: Iterable[_Item], fault: LifebusError) -> None:
    for call, index in items:
        call.give(index, EmitResult(refusal=RefusalInfo.of(fault)))
