"""Emissions under way: those of one tick of the event loop share a message, and what is not answered is sent again."""

import asyncio
from collections.abc import Iterable, Sequence
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
    TransportError,
    encode_msgpack,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import Emit, EmitAnswer, EmitResult

_BATCH: Final = 64
_ATTEMPT_S: Final = 1.0
_PAUSE_S: Final = (0.05, 1.0)


class _PendingEmission(Struct, eq=False):
    """One emission that waits for its result; `sent` are the batches it went out with, one a try."""

    emission: Emission
    result: "asyncio.Future[EmitResult]"
    sent: "tuple[_SentBatch, ...]" = ()


class _SentBatch(Struct, eq=False):
    """The emissions of one message under way, and the answer to it."""

    batch: Sequence[_PendingEmission]
    answer: "asyncio.Future[bytes]"


class Outbox:
    """Sends emissions under a client's name and returns what became of each."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        self._connection = connection
        self._client_id = client_id
        self._waiting: list[_PendingEmission] = []

    async def record(self, emissions: Sequence[Emission], *, seconds: float) -> list[EmitResult]:
        """Return the results, in order; a refusal takes the place of its result.

        Where every emission carries an idempotency key, they are sent again until an answer comes.  The first answer
        counts, whichever attempt it belongs to: only that of the first attempt may bring payloads to deliver.

        Raises:
            DeadlineExceeded: no answer within `seconds`; what became of the emissions is unknown.
        """
        keyed = all(emission.request.idempotency_key for emission in emissions)
        loop = asyncio.get_running_loop()
        deadline, backoff = loop.time() + seconds, Backoff(*_PAUSE_S)
        batch = [self._enqueue(emission) for emission in emissions]
        try:
            while True:
                left = deadline - loop.time()
                await _settled(batch, min(_ATTEMPT_S, left) if keyed else left)
                unsettled = [pending for pending in batch if _is_open(pending)]
                left = deadline - loop.time()
                if not unsettled or (left <= 0 and all(pending.result.done() for pending in unsettled)):
                    return [pending.result.result() for pending in batch]
                if left <= 0:
                    raise DeadlineExceeded(f"no acknowledgement within {seconds:g} s; it may be recorded")
                await asyncio.sleep(min(left, _asked_pause(unsettled) + backoff.next()))
                self._resend(unsettled)
        finally:
            _abandon(batch)

    def _enqueue(self, emission: Emission) -> _PendingEmission:
        """Put an emission into the message of this tick."""
        pending = _PendingEmission(emission, asyncio.get_running_loop().create_future())
        self._queue(pending)
        return pending

    def _resend(self, batch: Iterable[_PendingEmission]) -> None:
        for pending in batch:
            if pending.result.done():
                if not _is_open(pending):
                    continue
                pending.result = asyncio.get_running_loop().create_future()
            self._queue(pending)

    def _queue(self, pending: _PendingEmission) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)  # after every caller of this tick has queued
        self._waiting.append(pending)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        # Bounded, so that one long list does not delay what other tasks send.
        for start in range(0, len(waiting), _BATCH):
            self._send([pending for pending in waiting[start : start + _BATCH] if not pending.result.done()])

    def _send(self, batch: list[_PendingEmission]) -> None:
        """Send one message; halve it when it cannot be sent, so that one emission fails alone."""
        if not batch:
            return
        try:
            answer = self._connection.post("emit", self._encode(batch))
        except InvalidRequest as fault:
            self._halve(batch, fault)
        except LifebusError as fault:
            _refuse(batch, fault)
        else:
            sent = _SentBatch(batch, answer)
            for pending in batch:
                pending.sent += (sent,)
            answer.add_done_callback(lambda _: self._settle(sent))

    def _encode(self, batch: list[_PendingEmission]) -> bytes:
        emissions = tuple([pending.emission for pending in batch])
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

    def _halve(self, batch: Sequence[_PendingEmission], fault: InvalidRequest) -> None:
        """Send a refused message as two, until the one emission at fault is alone in its message."""
        if len(batch) == 1:
            _refuse(batch, fault)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            self._send([pending for pending in half if not pending.result.done()])

    def _settle(self, sent: _SentBatch) -> None:
        """Give every caller of a message its own result."""
        if sent.answer.cancelled():
            return
        fault = sent.answer.exception()
        # The broker refuses a malformed message as a whole; the others in it are innocent.
        if isinstance(fault, InvalidRequest):
            self._halve(sent.batch, fault)
        elif fault is not None:
            _refuse(sent.batch, fault)
        else:
            self._give(sent.batch, sent.answer.result())

    def _give(self, batch: Sequence[_PendingEmission], answer: bytes) -> None:
        """Give every caller of an answered message its result."""
        try:
            results = decode_answer(answer, EmitAnswer).results
            if len(results) != len(batch):
                raise unreadable(f"{len(results)} results for {len(batch)} emissions")
        except InternalError as fault:
            _refuse(batch, fault)
            return
        for pending, result in zip(batch, results, strict=True):
            if not pending.result.done():
                pending.result.set_result(result)


async def _settled(batch: Sequence[_PendingEmission], seconds: float) -> None:
    """Wait until every one has a result, at most so long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    for pending in batch:
        if not pending.result.done():
            # `wait` leaves the future alone at the timeout; `wait_for` would cancel it.
            await asyncio.wait((pending.result,), timeout=max(0.0, until - loop.time()))


def _is_open(pending: _PendingEmission) -> bool:
    """Whether it is to be sent again: no result yet, or the broker was busy and stored nothing."""
    if not pending.result.done():
        return True
    refusal = pending.result.result().refusal
    return refusal is not None and refusal.code == "busy"


def _asked_pause(unsettled: Iterable[_PendingEmission]) -> float:
    """Return the longest pause that a busy broker asks for, in seconds."""
    refusals = (pending.result.result().refusal for pending in unsettled if pending.result.done())
    return max((refusal.retry_after_ms for refusal in refusals if refusal is not None), default=0) / 1000


def _refuse(batch: Iterable[_PendingEmission], fault: BaseException) -> None:
    known = fault if isinstance(fault, LifebusError) else TransportError(f"no answer: {type(fault).__name__}")
    for pending in batch:
        if not pending.result.done():
            pending.result.set_result(EmitResult(refusal=RefusalInfo.of(known)))


def _abandon(batch: Iterable[_PendingEmission]) -> None:
    """Cancel what is still open, and the answers that no caller waits for any more."""
    for pending in batch:
        pending.result.cancel()
        for sent in pending.sent:
            if not sent.answer.done() and all(other.result.done() for other in sent.batch):
                sent.answer.cancel()
