"""The sockets of the runtime directory: their paths, and the two that speak ZeroMQ."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import zmq

from lifebus_supervisor.daemon.lines import SOCKET as LINES
from lifebus_supervisor.hook_intake.intake import SOCKET
from lifebus_transports.runtime_dir import Lock, check_socket_path, remove_stale_socket
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.requests import RequestCounters, RequestHandler, RequestServer
from lifebus_transports.zmq.zap import UserGate

REQUESTS: Final = "requests.ipc"
RECEIPTS: Final = "receipts.ipc"


def claim_sockets(directory: Path, lock: Lock) -> None:
    """Check the paths of the sockets, and remove what a dead broker left there.

    Raises:
        LifebusError: a path is too long, or something else than a socket of ours is there.
    """
    for name in (REQUESTS, RECEIPTS, LINES, SOCKET):
        remove_stale_socket(check_socket_path(directory / name), lock)


class ZmqSockets:
    """The ZeroMQ side of a broker, closed when `stack` ends.  The gate that knows the peers opens first."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory, self._stack = directory, stack
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # Pushed first and so run last: this closes every socket that is still open.
        stack.callback(self._context.destroy, linger=200)
        self.gate = UserGate(self._context, {os.geteuid()})
        stack.callback(self.gate.close)

    def publish_receipts(self) -> ReceiptPublisher:
        """Open the socket that receipts are published on.

        Beacons are numbered by the clock, so that those of a restarted broker lie beyond all that came before.
        """
        address = self._bind(RECEIPTS)
        receipts = ReceiptPublisher(self._context, address, first_beacon=time.time_ns() // 1_000_000)
        self._stack.callback(receipts.close)
        return receipts

    def serve_requests(
        self, handle: RequestHandler, counters: RequestCounters, is_congested: Callable[[], bool]
    ) -> RequestServer:
        """Open the socket that requests come in by; those that record wait while the ledger is congested."""
        requests = RequestServer(
            self._context, self._bind(REQUESTS), handle, counters=counters, is_congested=is_congested
        )
        self._stack.callback(requests.close)
        return requests

    def _bind(self, name: str) -> str:
        """Return the address of a socket whose file is removed in the end."""
        path = self._directory / name
        # A client takes this file for a living broker, so it goes even where libzmq leaves it.
        self._stack.callback(path.unlink, missing_ok=True)
        return f"ipc://{path}"
