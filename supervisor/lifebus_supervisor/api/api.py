"""The API of the broker: a verb and its body in, one answer out, whatever protocol carries them."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct

from lifebus_contract import BrokerBusy, FailureClass, InternalError, LifebusError, TransportError
from lifebus_contract.fields import Document
from lifebus_supervisor.api.calls import Call, Peer
from lifebus_supervisor.api.table import BoundVerb, Handlers, bind
from lifebus_transports.adapter_names import with_adapter_ids
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.verb_types import Access, CallPool

# How often a stream renews the lease that its messages come under; a lease lasts three times as long
_RENEW_S: Final = 1.0

# How many messages of a stream may wait for its reader; more are not sent
_MAX_MESSAGES: Final = 64

_log = structlog.get_logger("lifebus.api")


class Message(Struct, frozen=True):
    """A message that answers nothing; a call that answers it names its `number`."""

    number: int
    verb: str
    body: object


class Api:
    """Serves every verb of the table.

    `families` hold the handlers; `reads` bounds the calls of the pools that have no size of their own.  While
    `stopping` is set, verbs that record are refused.
    """

    def __init__(self, families: Iterable[Handlers], tasks: TaskGroup, *, reads: int) -> None:
        self.stopping = False
        self._verbs = bind(families)
        self._tasks = tasks
        self._reads = reads
        self._under_way: Counter[str] = Counter()

    def submit(self, call: Call, verb: str, body: Document) -> None:
        """Serve one call; the answer goes to `call`, before this returns where it is known at once.

        This is the whole way of an `emit`: a task for each of them would cost more than everything else here.

        Raises:
            LifebusError: the refusal, which the adaptor sends.
        """
        # Adaptors have found the verb already, to decode the body: here it cannot be missing.
        bound = self._verbs[verb]
        body = with_adapter_ids(body)
        spec = bound.verb
        # Reads are still answered while a broker stops: clients find out by them what became of their emissions.
        if self.stopping and spec.records:
            raise TransportError("the broker is stopping; try again", code="busy")
        if spec.access is Access.OPERATOR and not call.peer.is_operator:
            raise LifebusError(f"`{verb}` is for operators", failure_class=FailureClass.OPERATOR_REQUIRED)
        if spec.pool is not None:
            self._start(bound, spec.pool, call, body)
        elif (answer := bound.handle(call, body)) is not None:
            call.answer(answer)

    async def call(self, peer: Peer, verb: str, body: Document, *, in_reply_to: int = 0) -> Any:
        """Return the answer to one call, for adaptors that wait for it; None for a verb that has none.

        Raises:
            LifebusError: the refusal.
        """
        pending = _PendingCall(peer, in_reply_to)
        self.submit(pending, verb, body)
        return None if self._verbs[verb].verb.answer is None else await pending.answered

    @asynccontextmanager
    async def stream(self, peer: Peer, verb: str, body: Document) -> AsyncGenerator[AsyncIterator[Message]]:
        """Call a verb that messages follow, and yield these; leaving the block ends them.

        The iterator ends by itself where another peer takes this one's place.

        Raises:
            LifebusError: the refusal.
        """
        sending, messages = anyio.create_memory_object_stream[Message](_MAX_MESSAGES)
        # Handlers keep the peer of the first call, so every renewal must come from the same one.
        streaming = _StreamingPeer(peer, sending)
        with sending, messages:
            await self.call(streaming, verb, body)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, streaming, verb, body)
                try:
                    yield messages
                finally:
                    # Synchronous on purpose: a block that is cancelled could not await an answer any more.
                    self.submit(_PendingCall(streaming, 0), "leave", Nothing())
                    tasks.cancel_scope.cancel()

    async def _renew(self, streaming: "_StreamingPeer", verb: str, body: Document) -> None:
        """Renew the lease until that is refused."""
        try:
            while True:
                await anyio.sleep(_RENEW_S)
                await self.call(streaming, verb, body)
        except LifebusError as fault:
            _log.info("stream_ended", verb=verb, code=fault.code)
            streaming.close()

    def _start(self, bound: BoundVerb, pool: CallPool, call: Call, body: Document) -> None:
        """Serve in a task of its own what has to wait, if its pool has room."""
        if self._under_way[pool.name] >= (self._reads if pool.size is None else pool.size):
            raise BrokerBusy(f"too many {pool.name} are under way; try again", code="busy")
        # Counted before the task runs: a burst of calls would all see an empty pool otherwise.
        self._under_way[pool.name] += 1
        self._tasks.start_soon(self._serve, bound, pool.name, call, body)

    async def _serve(self, bound: BoundVerb, pool: str, call: Call, body: Document) -> None:
        try:
            call.answer(await bound.handle(call, body))
        except LifebusError as fault:
            call.refuse(fault)
        except Exception:  # noqa: BLE001  a defect of ours costs this call, not everybody's broker
            _log.exception("call_failed", verb=bound.verb.name)
            call.refuse(InternalError("the broker failed on this request; see its log"))
        finally:
            self._under_way[pool] -= 1


class _PendingCall:
    """A call whose caller waits in this process; an answer that comes after it gave up is dropped."""

    def __init__(self, peer: Peer, in_reply_to: int) -> None:
        self.peer = peer
        self.in_reply_to = in_reply_to
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, body: object) -> None:
        if not self.answered.done():
            self.answered.set_result(body)

    def refuse(self, fault: LifebusError) -> None:
        if not self.answered.done():
            self.answered.set_exception(fault)


class _StreamingPeer:
    """A peer whose messages go into a stream."""

    def __init__(self, peer: Peer, messages: MemoryObjectSendStream[Message]) -> None:
        self._peer = peer
        self._messages = messages

    @property
    def identity(self) -> Hashable:
        return self._peer.identity

    @property
    def is_operator(self) -> bool:
        return self._peer.is_operator

    def send(self, number: int, verb: str, body: object) -> bool:
        try:
            self._messages.send_nowait(Message(number, verb, body))
        # A reader that is too slow counts as gone: the dispatch fails now instead of at its deadline.
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    def close(self) -> None:
        self._messages.close()
