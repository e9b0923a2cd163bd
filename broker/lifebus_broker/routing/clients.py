"""Callback clients: their events, what they require, and how long they may take."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_broker.ports import Evidence
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    InvalidRequest,
    LifecycleEvent,
    RequirementLevel,
)
from lifebus_contract.vocabulary import UNSERVABLE

ClientHandler = Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]
"""An in-process callback client."""


class Invoker(Protocol):
    """Someone who can ask a callback client: an in-process function, a ZeroMQ worker, a command."""

    async def invoke(self, envelope: DispatchEnvelope, evidence: Evidence) -> CallbackResponse:
        """Return the client's answer; the router applies the deadline itself.

        What it adds to `evidence` stands in the client's receipt, however the call ends: answered, refused, cut off.

        Raises:
            LifebusError: it cannot be reached (transport_error) or answered nonsense (invalid_request).
        """
        ...


class FunctionInvoker:
    """Invokes an in-process async function."""

    def __init__(self, handler: ClientHandler) -> None:
        self._handler = handler

    async def invoke(self, envelope: DispatchEnvelope, evidence: Evidence) -> CallbackResponse:  # noqa: ARG002  a function has none
        """Return what the function returns; the dispatcher turns whatever it raises into a refusal."""
        return await self._handler(envelope)


class CallbackClient(Struct, eq=False):
    """One registered client.  Empty `adapters` means all; `deadline` is in seconds.

    `kind` is ``function``, ``worker`` or ``command``.  No hook waits for a `background` client: it may take its whole
    deadline, and its payloads can go into the receipt only.  `dispatched` and `failed` count since registration.
    """

    client_id: str
    events: frozenset[LifecycleEvent]
    invoker: Invoker
    requirements: tuple[CapabilityRequest, ...] = ()
    adapters: frozenset[str] = frozenset()
    deadline: float = 2.0
    kind: str = "function"
    background: bool = False
    dispatched: int = 0
    failed: int = 0

    @property
    def required(self) -> tuple[CapabilityRequest, ...]:
        """Those of its requirements whose level is `required`."""
        return tuple(one for one in self.requirements if one.level is RequirementLevel.REQUIRED)


class ClientTable:
    """The registered clients, by id and by event.  A client that registers again replaces itself."""

    def __init__(self) -> None:
        self._clients: dict[str, CallbackClient] = {}
        self._by_event: dict[LifecycleEvent, tuple[CallbackClient, ...]] = {}

    def add(self, client: CallbackClient) -> CallbackClient | None:
        """Register a client and return the one it replaces, if any.

        Raises:
            InvalidRequest: it wants an event that no client is asked about.
        """
        if LifecycleEvent.RECEIPT_EMITTED in client.events:
            raise InvalidRequest(UNSERVABLE, code="against_contract", field="$.events")
        replaced = self._clients.pop(client.client_id, None)  # popped first: the new one goes to the end of the order
        self._clients[client.client_id] = client
        self._index()
        return replaced

    def get(self, client_id: str) -> CallbackClient | None:
        """Return the client of this id, if there is one."""
        return self._clients.get(client_id)

    def remove(self, client: CallbackClient) -> bool:
        """Forget a client; False when it is not registered any more, or was replaced."""
        # By identity: a late `remove` of a replaced client must not take its successor away.
        if self._clients.get(client.client_id) is not client:
            return False
        del self._clients[client.client_id]
        self._index()
        return True

    def interested_in(self, event: LifecycleEvent, adapter_id: str) -> Sequence[CallbackClient]:
        """Return the clients that are interested in this event of this adapter, in the order of registration."""
        clients = self._by_event.get(event)
        if not clients:
            return ()
        return [client for client in clients if not client.adapters or adapter_id in client.adapters]

    def of(self, adapter_id: str) -> Sequence[CallbackClient]:
        """Return the clients of this adapter, whatever their events, in the order of registration."""
        return [client for client in self._clients.values() if not client.adapters or adapter_id in client.adapters]

    def all(self) -> tuple[CallbackClient, ...]:
        """Return every registered client."""
        return tuple(self._clients.values())

    def _index(self) -> None:
        # Built at each change, because every emit reads it and clients come and go rarely.
        self._by_event = {
            event: tuple(client for client in self._clients.values() if event in client.events)
            for event in LifecycleEvent
        }
