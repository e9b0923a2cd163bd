"""Callback clients behind the request door: dispatches out, responses in (docs/contract.md 8.1).

A worker is reached over the connection it registered on.  Who is gone is noticed at once where the socket says so,
and otherwise by the lease that the daemon keeps.
"""

import asyncio
import itertools

from lifebus_contract import CallbackResponse, DispatchEnvelope, TransportError
from lifebus_contract.fields import FactKey, FactValue
from lifebus_transports.messages.workers import Dispatch, Response
from lifebus_transports.zmq.requests import Caller, RequestServer

_VERB = "dispatch"


class Dispatches:
    """The dispatches that wait for a response, by their correlation id."""

    def __init__(self, door: RequestServer) -> None:
        self._door = door
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[bytes, asyncio.Future[Response]]] = {}

    async def ask(self, peer: bytes, dispatch: Dispatch, evidence: dict[FactKey, FactValue]) -> CallbackResponse:
        """Send a dispatch to a connection and return the response; its evidence is added to `evidence`.

        Raises:
            TransportError: the worker is gone, or went while the dispatch was under way.
            LifebusError: what the worker refused with.
        """
        number = next(self._numbers)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (peer, future)
        try:
            if not self._door.send(peer, number, _VERB, dispatch):
                raise TransportError("the worker is not connected any more", code="worker_gone")
            answer = await future
        finally:
            del self._waiting[number]
        evidence.update(answer.evidence)
        if answer.response is not None:
            return answer.response
        if answer.refusal is not None:
            raise answer.refusal.error()
        raise TransportError("the worker answered nothing", code="bad_answer")

    def resolve(self, caller: Caller, answer: Response) -> None:
        """Take a response; one that nobody waits for any more, or from another connection, is dropped."""
        peer, future = self._waiting.get(caller.correlation, (b"", None))
        if future is None or peer != caller.peer or future.done():
            return
        future.set_result(answer)

    def fail(self, peer: bytes) -> None:
        """Give up what a connection still owes."""
        for waiting_for, future in self._waiting.values():
            if waiting_for == peer and not future.done():
                future.set_exception(TransportError("the worker went away", code="worker_gone"))


class WorkerInvoker:
    """Asks one worker; fulfils `lifebus_broker.ports.Invoker` by its shape."""

    def __init__(self, dispatches: Dispatches, peer: bytes, client_id: str, deadline_ms: int) -> None:
        self.peer = peer
        self._dispatches = dispatches
        self._client_id = client_id
        self._deadline_ms = deadline_ms

    async def invoke(self, envelope: DispatchEnvelope, evidence: dict[FactKey, FactValue]) -> CallbackResponse:
        """Return the worker's response.

        Raises:
            LifebusError: as `Dispatches.ask`.
        """
        dispatch = Dispatch(client_id=self._client_id, envelope=envelope, deadline_ms=self._deadline_ms)
        return await self._dispatches.ask(self.peer, dispatch, evidence)
