"""The verbs of callback workers, and the leases under which they are registered."""

from collections.abc import Callable, Hashable
from typing import Final

import structlog
from msgspec import Struct

from lifebus_broker.routing.clients import CallbackClient, ClientTable
from lifebus_contract import StateConflict
from lifebus_supervisor.api.calls import Call, Peer
from lifebus_supervisor.api.dispatches import Dispatches, WorkerInvoker
from lifebus_supervisor.api.table import Handlers
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.workers import COMMAND, WORKER, Serve

LEASE_S: Final = 3.0
"""How long a worker may be silent before its registration ends, in seconds."""

_log = structlog.get_logger("lifebus.workers")


class _WorkerLease(Struct):
    """A connection that serves: as which client, on what registration, and the time of its last `serve`."""

    client: CallbackClient
    registration: Serve
    seen: float
    replaced: bool = False


class Workers:
    """Serves `serve`, `leave` and `response`.  `now` is the monotonic clock, in seconds."""

    def __init__(self, clients: ClientTable, dispatches: Dispatches, now: Callable[[], float]) -> None:
        self._clients = clients
        self._dispatches = dispatches
        self._now = now
        self._leases: dict[Hashable, _WorkerLease] = {}

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {"serve": self.serve, "leave": self.leave, "response": self._dispatches.resolve}

    def serve(self, call: Call, body: Serve) -> Nothing:
        """Register the peer as a callback client, or renew its lease.

        Raises:
            StateConflict: another peer has taken this client's place, and the newest one keeps it; or a configured
                command has this name.
        """
        peer = call.peer
        lease = self._leases.get(peer.identity)
        # The newest peer keeps a name: two that take it from each other in turn would both answer half of the
        # dispatches.
        if lease is not None and lease.replaced:
            raise StateConflict(f"another worker serves as `{body.client_id[:64]}` now", code="replaced")
        if lease is not None and lease.registration == body:
            lease.seen = self._now()
            return Nothing()
        if lease is not None:
            self._drop(peer.identity, "changed")
        present = self._clients.get(body.client_id)
        # The configuration wins, because only a restart would register its command again.
        if present is not None and present.kind == COMMAND:
            raise StateConflict(f"`{body.client_id[:64]}` is a command of the configuration", code="configured")
        self._register(peer, body)
        return Nothing()

    def leave(self, call: Call, _: Nothing) -> Nothing:
        """Forget a worker that ends its registration; a peer that does not serve has nothing to end."""
        if call.peer.identity in self._leases:
            self._drop(call.peer.identity, "left")
        return Nothing()

    def sweep(self) -> None:
        """Drop workers that were silent for longer than their lease."""
        # ZeroMQ does not say that a peer has gone; silence is all there is to go by.
        overdue = self._now() - LEASE_S
        for identity in [identity for identity, lease in self._leases.items() if lease.seen < overdue]:
            self._drop(identity, "silent")

    def _register(self, peer: Peer, registration: Serve) -> None:
        client = CallbackClient(
            client_id=registration.client_id,
            events=frozenset(registration.events),
            invoker=WorkerInvoker(self._dispatches, peer, registration.client_id, registration.deadline_ms),
            requirements=registration.requirements,
            adapters=frozenset(registration.adapters),
            deadline=registration.deadline_ms / 1000,
            kind=WORKER,
        )
        replaced = self._clients.add(client)
        if replaced is not None and isinstance(replaced.invoker, WorkerInvoker):
            # Its lease stays, so that its next `serve` is refused instead of taking the place back.
            self._leases[replaced.invoker.peer.identity].replaced = True
            self._dispatches.fail(replaced.invoker.peer.identity)
            _log.warning("worker_replaced", client_id=registration.client_id)
        self._leases[peer.identity] = _WorkerLease(client, registration, self._now())
        _log.info("worker_joined", client_id=registration.client_id, events=len(registration.events))

    def _drop(self, identity: Hashable, reason: str) -> None:
        client = self._leases.pop(identity).client
        self._clients.remove(client)
        self._dispatches.fail(identity)
        _log.info("worker_gone", client_id=client.client_id, why=reason)
