"""Dispatches to workers: out as messages that answer nothing, their responses in as calls.

A worker is asked over the connection that it registered on (docs/wire-protocol.md, "Callback workers").
"""

import asyncio
import itertools
from collections.abc import Hashable

from lifebus_contract import CallbackResponse, DispatchEnvelope, TransportError
from lifebus_contract.fields import FactKey, FactValue
from lifebus_supervisor.api.calls import Call, Peer
from lifebus_transports.messages.workers import Dispatch, Response

_VERB = "dispatch"


class Dispatches:
    """The dispatches that wait for a response, by their number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[Hashable, asyncio.Future[Response]]] = {}

    async def ask(self, peer: Peer, dispatch: Dispatch, evidence: dict[FactKey, FactValue]) -> CallbackResponse:
        """Send a dispatch to a peer and return the response; its evidence is added to `evidence`.

        Raises:
            TransportError: the worker is gone, or went while the dispatch was under way.
            LifebusError: what the worker refused with.
        """
        number = next(self._numbers)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        # Before it is sent: a peer in this process may answer before `send` returns.
        self._waiting[number] = (peer.identity, future)
        try:
            if not peer.send(number, _VERB, dispatch):
                raise TransportError("the worker is not connected any more", code="worker_gone")
            answer = await future
        finally:
            del self._waiting[number]
        # Evidence counts with a refusal as well: an exit code explains why there is no response.
        evidence.update(answer.evidence)
        if answer.response is not None:
            return answer.response
        if answer.refusal is not None:
            raise answer.refusal.error()
        raise TransportError("the worker answered nothing", code="bad_answer")

    def resolve(self, call: Call, answer: Response) -> None:
        """Take a response; one without an open dispatch, or from another connection, is dropped."""
        identity, future = self._waiting.get(call.in_reply_to, (None, None))
        # Numbers are easy to guess: only the connection that was asked may answer.
        if future is None or identity != call.peer.identity or future.done():
            return
        future.set_result(answer)

    def fail(self, identity: Hashable) -> None:
        """Give up what a connection still owes."""
        for asked, future in self._waiting.values():
            if asked == identity and not future.done():
                future.set_exception(TransportError("the worker went away", code="worker_gone"))


class WorkerInvoker:
    """Asks one worker; fulfils `lifebus_broker.routing.clients.Invoker` by its shape."""

    def __init__(self, dispatches: Dispatches, peer: Peer, client_id: str, deadline_ms: int) -> None:
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
