"""Emissions under way: those of one tick of the event loop share a message, and what is not answered is sent again."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection
from lifebus_contract import (
    DeadlineExceeded,
    Emission,
    FailureClass,
    InvalidRequest,
    LifebusError,
    TransportError,
    decode_msgpack,
    encode_msgpack,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import Emit, EmitAnswer, EmitResult

_BATCH: Final = 64
_ATTEMPT_S: Final = 1.0
_PAUSE_S: Final = (0.05, 1.0)


class _PendingEmission(Struct, eq=False):
    """One emission that waits for its result; `messages` are those it went out with, one a try."""

    emission: Emission
    result: "asyncio.Future[EmitResult]"
    messages: "tuple[_Message, ...]" = ()


class _Message(Struct, eq=False):
    """One message under way, and who waits for its answer."""

    pending: Sequence[_PendingEmission]
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
        pending = [self._enqueue(emission) for emission in emissions]
        try:
            while True:
                left = deadline - loop.time()
                await _settled(pending, min(_ATTEMPT_S, left) if keyed else left)
                open_ones = [one for one in pending if _is_open(one)]
                left = deadline - loop.time()
                if not open_ones or (left <= 0 and all(one.result.done() for one in open_ones)):
                    return [one.result.result() for one in pending]
                if left <= 0:
                    raise DeadlineExceeded(f"no acknowledgement within {seconds:g} s; it may be recorded")
                await asyncio.sleep(min(left, backoff.next()))
                self._resend(open_ones)
        finally:
            _abandon(pending)

    def _enqueue(self, emission: Emission) -> _PendingEmission:
        """Put an emission into the message of this tick."""
        one = _PendingEmission(emission, asyncio.get_running_loop().create_future())
        self._queue(one)
        return one

    def _resend(self, pending: Iterable[_PendingEmission]) -> None:
        for one in pending:
            if one.result.done():
                if not _is_open(one):
                    continue
                one.result = asyncio.get_running_loop().create_future()
            self._queue(one)

    def _queue(self, one: _PendingEmission) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)  # after every caller of this tick has queued
        self._waiting.append(one)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        # Bounded, so that one long list does not delay what other tasks send.
        for start in range(0, len(waiting), _BATCH):
            self._send([one for one in waiting[start : start + _BATCH] if not one.result.done()])

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
            message = _Message(batch, answer)
            for one in batch:
                one.messages += (message,)
            answer.add_done_callback(lambda _: self._settle(message))

    def _encode(self, batch: list[_PendingEmission]) -> bytes:
        body = Emit(client_id=self._client_id, emissions=tuple([one.emission for one in batch]))
        try:
            encoded = encode_msgpack(body)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError) as fault:
            raise InvalidRequest(f"the emission cannot be written down: {fault}"[:1024], code="malformed") from None
        if len(encoded) > MAX_MESSAGE_BYTES:
            raise InvalidRequest(
                f"an emission may take {MAX_MESSAGE_BYTES} bytes",
                failure_class=FailureClass.PAYLOAD_TOO_LARGE,
                code="too_large",
            )
        return encoded

    def _halve(self, batch: Sequence[_PendingEmission], fault: InvalidRequest) -> None:
        """Send a refused message as two, until the one emission at fault is alone in its message."""
        if len(batch) == 1:
            _refuse(batch, fault)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            self._send([one for one in half if not one.result.done()])

    def _settle(self, message: _Message) -> None:
        """Give every caller of a message its own result."""
        if message.answer.cancelled():
            return
        fault = message.answer.exception()
        # The broker refuses a malformed message as a whole; the others in it are innocent.
        if isinstance(fault, InvalidRequest):
            self._halve(message.pending, fault)
        elif fault is not None:
            _refuse(message.pending, fault)
        else:
            results = decode_msgpack(message.answer.result(), EmitAnswer).results
            for one, result in zip(message.pending, results, strict=True):
                if not one.result.done():
                    one.result.set_result(result)


async def _settled(pending: Sequence[_PendingEmission], seconds: float) -> None:
    """Wait until every one has a result, at most so long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    for one in pending:
        if not one.result.done():
            # `wait` leaves the future alone at the timeout; `wait_for` would cancel it.
            await asyncio.wait((one.result,), timeout=max(0.0, until - loop.time()))


def _is_open(one: _PendingEmission) -> bool:
    """Whether it is to be sent again: no result yet, or the broker was busy and stored nothing."""
    if not one.result.done():
        return True
    refusal = one.result.result().refusal
    return refusal is not None and refusal.code == "busy"


def _refuse(pending: Iterable[_PendingEmission], fault: BaseException) -> None:
    known = fault if isinstance(fault, LifebusError) else TransportError(f"no answer: {type(fault).__name__}")
    for one in pending:
        if not one.result.done():
            one.result.set_result(EmitResult(refusal=RefusalInfo.of(known)))


def _abandon(pending: Iterable[_PendingEmission]) -> None:
    """Cancel what is still open, and the answers that no caller waits for any more."""
    for one in pending:
        one.result.cancel()
        for message in one.messages:
            if not message.answer.done() and all(other.result.done() for other in message.pending):
                message.answer.cancel()
