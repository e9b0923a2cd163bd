"""The callback clients that are connected over ZeroMQ, and their leases."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from lifebus_broker.routing.clients import CallbackClient, ClientTable
from lifebus_contract import StateConflict
from lifebus_supervisor.daemon.command_clients import KIND
from lifebus_transports.messages.workers import Serve
from lifebus_transports.zmq.requests import Caller
from lifebus_transports.zmq.workers import Dispatches, WorkerInvoker

LEASE_S: Final = 3.0
"""How long a worker may be silent before it is taken for gone, in seconds."""

_log = structlog.get_logger("lifebus.workers")


@dataclass(slots=True)
class _Lease:
    """A connection that serves: as which client, on what wish, and when it was heard last."""

    client: CallbackClient
    wish: Serve
    seen: float
    replaced: bool = False


class Workers:
    """Registers, renews and drops workers.  `now` is the monotonic clock, in seconds."""

    def __init__(self, clients: ClientTable, dispatches: Dispatches, now: Callable[[], float]) -> None:
        self._clients = clients
        self._dispatches = dispatches
        self._now = now
        self._leases: dict[bytes, _Lease] = {}

    def serve(self, caller: Caller, wish: Serve) -> None:
        """Register the connection as a callback client, or renew its lease.

        Raises:
            StateConflict: another connection has taken this client's place, and the newest one keeps it; or a
                configured command has this name.
        """
        lease = self._leases.get(caller.peer)
        if lease is not None and lease.replaced:
            raise StateConflict(f"another worker serves as `{wish.client_id[:64]}` now", code="replaced")
        if lease is not None and lease.wish == wish:
            lease.seen = self._now()
            return
        if lease is not None:
            self._drop(caller.peer, "changed")
        present = self._clients.get(wish.client_id)
        if present is not None and present.kind == KIND:
            raise StateConflict(f"`{wish.client_id[:64]}` is a command of the configuration", code="configured")
        self._register(caller.peer, wish)

    def _register(self, peer: bytes, wish: Serve) -> None:
        client = CallbackClient(
            client_id=wish.client_id,
            events=frozenset(wish.events),
            invoker=WorkerInvoker(self._dispatches, peer, wish.client_id, wish.deadline_ms),
            requirements=wish.requirements,
            adapters=frozenset(wish.adapters),
            deadline=wish.deadline_ms / 1000,
            kind="worker",
        )
        replaced = self._clients.add(client)
        if replaced is not None and isinstance(replaced.invoker, WorkerInvoker):
            self._leases[replaced.invoker.peer].replaced = True
            self._dispatches.fail(replaced.invoker.peer)
            _log.warning("worker_replaced", client_id=wish.client_id)
        self._leases[peer] = _Lease(client, wish, self._now())
        _log.info("worker_joined", client_id=wish.client_id, events=len(wish.events))

    def leave(self, caller: Caller) -> None:
        """Forget a worker that says goodbye."""
        if caller.peer in self._leases:
            self._drop(caller.peer, "left")

    def sweep(self) -> None:
        """Drop workers that were silent for longer than their lease."""
        overdue = self._now() - LEASE_S
        for peer in [peer for peer, lease in self._leases.items() if lease.seen < overdue]:
            self._drop(peer, "silent")

    def _drop(self, peer: bytes, why: str) -> None:
        client = self._leases.pop(peer).client
        self._clients.remove(client)
        self._dispatches.fail(peer)
        _log.info("worker_gone", client_id=client.client_id, why=why)
