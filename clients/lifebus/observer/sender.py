"""Sends observations to the broker, whenever there is one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import zmq
from msgspec import Struct

from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection, broker_directory
from lifebus.observer.queue import ObservationBatch, ObservationQueue
from lifebus_contract import DeadlineExceeded, InvalidRequest, LifebusError, StateConflict
from lifebus_transports.messages.signals import Observe, ObserveAnswer, ObservedProcess

CLIENT_ID: Final = "lifebus.observer"
"""The client under whose name observations are recorded."""

_ANSWER_S: Final = 5.0
_PAUSE_S: Final = (0.05, 1.0)
_RETRY_S: Final = 0.25
"""How often the observer checks for a broker's socket, in seconds."""


class ObservedRun(Struct, frozen=True):
    """Whose observations they are: the adapter, the unique name of this run, the app-server's process if known."""

    adapter_id: str
    origin: str
    process: ObservedProcess | None = None


class ObservationSender:
    """Sends the queue, batch by batch, each until it is durable; `on_durable` is called whenever one is."""

    def __init__(
        self, queue: ObservationQueue, runtime_dir: Path, run: ObservedRun, on_durable: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._on_durable = on_durable
        self._runtime_dir = runtime_dir
        self._run = run
        self._backoff = Backoff(*_PAUSE_S)

    @property
    def broker_absent(self) -> bool:
        """Whether there is no broker, and has been none; one in a directory that others can change is none of ours."""
        try:
            broker_directory(self._runtime_dir)
        except LifebusError:
            return True
        return False

    async def run(self, wait_for_work: Callable[[], Awaitable[bool]]) -> None:
        """Send what is queued, until `wait_for_work` returns False: nothing more will come."""
        connection: Connection | None = None
        try:
            while await wait_for_work():
                connection = connection or await self._connect()
                if not await self._send(connection):
                    _drop(connection)  # or its unsent copies would reach the broker as well once it reads again
                    connection = None
        finally:
            if connection is not None:
                _drop(connection)

    async def _connect(self) -> Connection:
        while self.broker_absent:  # noqa: ASYNC110  no event announces a first broker
            await anyio.sleep(_RETRY_S)
        return Connection(zmq.Context(), self._runtime_dir)

    async def _send(self, connection: Connection) -> bool:
        """Send the batch that is due; return False where the connection is of no use any more."""
        batch = self._queue.batch()
        if batch is None:
            return True
        try:
            answer = await connection.ask("observe", self._body(batch), ObserveAnswer, timeout=_ANSWER_S)
        except (InvalidRequest, StateConflict):  # it would be refused every time
            self._queue.refuse()
        except DeadlineExceeded:
            return False
        # Busy, or a full disk: the same batch may succeed later.
        except LifebusError as fault:
            await self._backoff.wait()
            # A connection that met another user's broker is over; the next one may be to ours.
            return fault.code != "foreign_broker"
        else:
            self._queue.acknowledge(answer.through)
            self._on_durable()
            self._backoff.reset()
        return True

    def _body(self, batch: ObservationBatch) -> Observe:
        run = self._run
        return Observe(
            client_id=CLIENT_ID,
            adapter_id=run.adapter_id,
            origin=run.origin,
            first=batch.first,
            observations=batch.observations,
            process=run.process,
        )


def _drop(connection: Connection) -> None:
    """Close a connection and forget what it has not sent."""
    connection.close()
    connection.context.destroy(linger=0)
