"""Emissions on their way: those of one tick share a message, and silence is met by asking again."""

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


class _Question(Struct, eq=False):
    """One emission that waits for its result; `messages` are those it went out with, one a try."""

    emission: Emission
    result: "asyncio.Future[EmitResult]"
    messages: "tuple[_Message, ...]" = ()


class _Message(Struct, eq=False):
    """One message under way, and who waits for its answer."""

    questions: Sequence[_Question]
    answer: "asyncio.Future[bytes]"


class Outbox:
    """Sends emissions under a client's name and returns what became of each."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        self._connection = connection
        self._client_id = client_id
        self._waiting: list[_Question] = []

    async def record(self, emissions: Sequence[Emission], *, seconds: float) -> list[EmitResult]:
        """Return the results, in order; a refusal stands in the place of its emission.

        Where every emission carries an idempotency key, silence is met by asking again.  The first answer counts,
        whichever try it belongs to: only that of the first try may bring payloads to deliver.

        Raises:
            DeadlineExceeded: no answer within `seconds`; what became of the emissions is unknown.
        """
        keyed = all(emission.request.idempotency_key for emission in emissions)
        loop = asyncio.get_running_loop()
        deadline, backoff = loop.time() + seconds, Backoff(*_PAUSE_S)
        questions = [self._ask(emission) for emission in emissions]
        try:
            while True:
                left = deadline - loop.time()
                await _settled(questions, min(_ATTEMPT_S, left) if keyed else left)
                open_ones = [question for question in questions if _is_open(question)]
                left = deadline - loop.time()
                if not open_ones or (left <= 0 and all(question.result.done() for question in open_ones)):
                    return [question.result.result() for question in questions]
                if left <= 0:
                    raise DeadlineExceeded(f"no acknowledgement within {seconds:g} s; it may be recorded")
                await asyncio.sleep(min(left, backoff.next()))
                self._ask_again(open_ones)
        finally:
            _forget(questions)

    def _ask(self, emission: Emission) -> _Question:
        """Put an emission into the message of this tick."""
        question = _Question(emission, asyncio.get_running_loop().create_future())
        self._queue(question)
        return question

    def _ask_again(self, questions: Iterable[_Question]) -> None:
        for question in questions:
            if question.result.done():
                if not _is_open(question):
                    continue
                question.result = asyncio.get_running_loop().create_future()
            self._queue(question)

    def _queue(self, question: _Question) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(question)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), _BATCH):
            self._send([question for question in waiting[start : start + _BATCH] if not question.result.done()])

    def _send(self, batch: list[_Question]) -> None:
        """Send one message; halve it when it cannot be sent, so that one emission hurts no neighbour."""
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
            for question in batch:
                question.messages += (message,)
            answer.add_done_callback(lambda _: self._settle(message))

    def _encode(self, batch: list[_Question]) -> bytes:
        body = Emit(client_id=self._client_id, emissions=tuple([question.emission for question in batch]))
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

    def _halve(self, batch: Sequence[_Question], fault: InvalidRequest) -> None:
        """Send a refused message as two, until the one emission that is to blame stands alone."""
        if len(batch) == 1:
            _refuse(batch, fault)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            self._send([question for question in half if not question.result.done()])

    def _settle(self, message: _Message) -> None:
        """Give every caller of a message its own result."""
        if message.answer.cancelled():
            return
        fault = message.answer.exception()
        if isinstance(fault, InvalidRequest):
            self._halve(message.questions, fault)
        elif fault is not None:
            _refuse(message.questions, fault)
        else:
            results = decode_msgpack(message.answer.result(), EmitAnswer).results
            for question, result in zip(message.questions, results, strict=True):
                if not question.result.done():
                    question.result.set_result(result)


async def _settled(questions: Sequence[_Question], seconds: float) -> None:
    """Wait until every question has a result, at most so long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    for question in questions:
        if not question.result.done():
            await asyncio.wait((question.result,), timeout=max(0.0, until - loop.time()))


def _is_open(question: _Question) -> bool:
    """Whether asking again is the way on: no result yet, or nothing was stored for now."""
    if not question.result.done():
        return True
    refusal = question.result.result().refusal
    return refusal is not None and refusal.code == "busy"


def _refuse(questions: Iterable[_Question], fault: BaseException) -> None:
    known = fault if isinstance(fault, LifebusError) else TransportError(f"no answer: {type(fault).__name__}")
    for question in questions:
        if not question.result.done():
            question.result.set_result(EmitResult(refusal=RefusalInfo.of(known)))


def _forget(questions: Iterable[_Question]) -> None:
    """Give up what is still open, and the answers that nobody waits for any more."""
    for question in questions:
        question.result.cancel()
        for message in question.messages:
            if not message.answer.done() and all(other.result.done() for other in message.questions):
                message.answer.cancel()
