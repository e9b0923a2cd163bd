"""Observations on their way to the broker, whenever there is one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import zmq
from msgspec import Struct

from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection
from lifebus.observer.queue import ObservationBatch, ObservationQueue
from lifebus_contract import DeadlineExceeded, InvalidRequest, LifebusError, StateConflict
from lifebus_transports.messages.signals import Observe, ObserveAnswer, ObservedProcess

CLIENT_ID: Final = "lifebus.observer"
"""The client under whose name observations are told."""

_ANSWER_S: Final = 5.0
_PAUSE_S: Final = (0.05, 1.0)
_LOOK_S: Final = 0.25
"""How often the place where a broker appears is looked at."""


class ObservedRun(Struct, frozen=True):
    """Whose observations they are: the adapter, the unique name of this run, the app-server's process if known."""

    adapter_id: str
    origin: str
    process: ObservedProcess | None = None


class ObservationSender:
    """Sends the backlog, batch by batch, each until it is durable."""

    def __init__(self, backlog: ObservationQueue, runtime_dir: Path, sender: ObservedRun) -> None:
        self._backlog = backlog
        self._runtime_dir = runtime_dir
        self._sender = sender
        self._backoff = Backoff(*_PAUSE_S)

    @property
    def hopeless(self) -> bool:
        """Whether there is no broker, and has been none."""
        return not (self._runtime_dir / "requests.ipc").exists()

    async def run(self, more: Callable[[], Awaitable[bool]]) -> None:
        """Send whatever is there, until `more` (which waits for observations) says that nothing will come any more."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        connection: Connection | None = None
        try:
            while await more():
                connection = connection or await self._connect(context)
                if not await self._send(connection):
                    connection.close()  # what it still holds would come in a heap once the broker reads again
                    connection = None
        finally:
            if connection is not None:
                connection.close()
            context.destroy(linger=0)

    async def _connect(self, context: "zmq.Context[zmq.Socket[bytes]]") -> Connection:
        while self.hopeless:  # noqa: ASYNC110  no event tells of a first broker
            await anyio.sleep(_LOOK_S)
        return Connection(context, self._runtime_dir)

    async def _send(self, connection: Connection) -> bool:
        """Send the batch that is due; return False where no answer came."""
        batch = self._backlog.batch()
        if batch is None:
            return True
        try:
            answer = await connection.ask("observe", self._body(batch), ObserveAnswer, timeout=_ANSWER_S)
        except (InvalidRequest, StateConflict):  # so it will be every time
            self._backlog.refuse()
        except DeadlineExceeded:
            return False
        except LifebusError:
            await self._backoff.rest()
        else:
            self._backlog.settle(answer.through)
            self._backoff.reset()
        return True

    def _body(self, batch: ObservationBatch) -> Observe:
        sender = self._sender
        return Observe(
            client_id=CLIENT_ID,
            adapter_id=sender.adapter_id,
            origin=sender.origin,
            first=batch.first,
            observations=batch.observations,
            process=sender.process,
        )
