"""The callback clients that are connected over ZeroMQ, and their leases.

Above: service.  Below: lifebus_broker, lifebus_transports.
"""

from collections.abc import Callable
from typing import Final

import structlog

from lifebus_broker.clients import CallbackClient, ClientTable
from lifebus_transports.messages import Serve
from lifebus_transports.zmq_requests import Caller
from lifebus_transports.zmq_workers import Dispatches, WorkerInvoker

__all__ = ["LEASE_S", "Workers"]

LEASE_S: Final = 3.0
"""How long a worker may be silent before it is taken for gone, in seconds."""

_log = structlog.get_logger("lifebus.workers")


class Workers:
    """Registers, renews and drops workers.  `now` is the monotonic clock, in seconds."""

    def __init__(self, clients: ClientTable, dispatches: Dispatches, now: Callable[[], float]) -> None:
        self._clients = clients
        self._dispatches = dispatches
        self._now = now
        self._leases: dict[bytes, tuple[CallbackClient, Serve, float]] = {}

    def serve(self, caller: Caller, wish: Serve) -> None:
        """Register the connection as a callback client, or renew its lease."""
        known = self._leases.get(caller.peer)
        if known is not None and known[1] == wish:
            self._leases[caller.peer] = (known[0], wish, self._now())
            return
        if known is not None:
            self._drop(caller.peer, "changed")
        client = CallbackClient(
            client_id=wish.client_id,
            events=frozenset(wish.events),
            invoker=WorkerInvoker(self._dispatches, caller.peer, wish.client_id, wish.deadline_ms),
            requirements=wish.requirements,
            adapters=frozenset(wish.adapters),
            deadline=wish.deadline_ms / 1000,
            kind="worker",
        )
        replaced = self._clients.add(client)
        if replaced is not None and isinstance(replaced.invoker, WorkerInvoker):
            self._leases.pop(replaced.invoker.peer, None)
            self._dispatches.fail(replaced.invoker.peer)
            _log.warning("worker_replaced", client_id=wish.client_id)
        self._leases[caller.peer] = (client, wish, self._now())
        _log.info("worker_joined", client_id=wish.client_id, events=len(wish.events))

    def leave(self, caller: Caller) -> None:
        """Forget a worker that says goodbye."""
        if caller.peer in self._leases:
            self._drop(caller.peer, "left")

    def sweep(self) -> None:
        """Drop workers that were silent for longer than their lease."""
        overdue = self._now() - LEASE_S
        for peer in [peer for peer, (_, _, seen) in self._leases.items() if seen < overdue]:
            self._drop(peer, "silent")

    def _drop(self, peer: bytes, why: str) -> None:
        client, _, _ = self._leases.pop(peer)
        self._clients.remove(client)
        self._dispatches.fail(peer)
        _log.info("worker_gone", client_id=client.client_id, why=why)
