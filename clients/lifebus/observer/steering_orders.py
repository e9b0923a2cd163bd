"""Takes orders for the app-server from the broker, whenever there is one, and reports what became of them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import zmq
from anyio.abc import TaskGroup

from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection, broker_directory
from lifebus.observer.sender import CLIENT_ID, ObservedRun
from lifebus.observer.steering import Steering
from lifebus_contract import LifebusError
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.steering import (
    MAX_WAIT_MS,
    AwaitOrder,
    NextOrder,
    OrderReport,
    SteeringOrder,
)

_ANSWER_S: Final = 5.0
_PAUSE_S: Final = (0.2, 2.0)
_MAX_RUNNING: Final = 16

OWNER_S: Final = 15.0
"""How long a turn of the broker's own may run without a broker, in seconds; then it is interrupted."""

_STAYS_S: Final = 3.0
_LOOK_S: Final = 1.0


async def take_orders(steering: Steering, run: ObservedRun, runtime_dir: Path) -> None:
    """Do the orders of every broker that there is, until cancelled."""
    backoff, room, presence = Backoff(*_PAUSE_S), anyio.Semaphore(_MAX_RUNNING), BrokerPresence()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(steering.refuse_requests)
        tasks.start_soon(_end_orphans, steering, presence)
        while True:
            try:
                broker_directory(runtime_dir)
                connection = Connection(zmq.Context(), runtime_dir)
                try:
                    begin = partial(_begin, tasks, steering, run, connection, room)
                    await _fetch(connection, run, backoff, room, begin, presence)
                finally:
                    connection.close()
                    connection.context.destroy(linger=0)
            except LifebusError:  # no broker, one that ended, one of an earlier release: there may be another one later
                presence.lost(anyio.current_time())
                await backoff.wait()


async def _fetch(  # noqa: PLR0917  each is what fetching needs
    connection: Connection,
    run: ObservedRun,
    backoff: Backoff,
    room: anyio.Semaphore,
    begin: Callable[[SteeringOrder], None],
    presence: "BrokerPresence",
) -> None:
    """Begin the orders of one broker.

    Raises:
        LifebusError: it is gone, or knows no orders.
    """
    body = AwaitOrder(client_id=CLIENT_ID, adapter_id=run.adapter_id, origin=run.origin)
    seconds = _ANSWER_S + MAX_WAIT_MS / 1000
    while True:
        await room.acquire()
        presence.asked(anyio.current_time())
        try:
            found = (await connection.ask("steer", body, NextOrder, timeout=seconds, lasting=True)).order
        except BaseException:
            room.release()
            raise
        backoff.reset()
        presence.answered()
        if found is None:
            room.release()
        else:
            begin(found)


class BrokerPresence:
    """Whether a broker is there; times are seconds of the monotonic clock.

    One that has not refused a question for `_STAYS_S` has it: whoever asks a dead one is told within a second.
    """

    def __init__(self) -> None:
        self._lost: float | None = None
        self._asked: float | None = None

    def asked(self, now: float) -> None:
        """Note that a broker is asked for an order."""
        self._asked = now

    def answered(self) -> None:
        """Note that a broker has answered: what it orders from now on is its own, however long none was there."""
        self._lost = None

    def lost(self, now: float) -> None:
        """Note that there is none, or that it ended."""
        stayed = self._asked is not None and now - self._asked > _STAYS_S
        self._lost = now if self._lost is None or stayed else self._lost
        self._asked = None

    def is_gone(self, now: float) -> bool:
        """Return whether there has been none for as long as one is waited for."""
        stays = self._asked is not None and now - self._asked > _STAYS_S
        return self._lost is not None and not stays and now - self._lost > OWNER_S


async def _end_orphans(steering: Steering, presence: BrokerPresence) -> None:
    """End the turns of the broker's own that run while no broker is there, until cancelled."""
    while True:
        await anyio.sleep(_LOOK_S)
        if presence.is_gone(anyio.current_time()):
            await steering.interrupt_own()


def _begin(  # noqa: PLR0917  each is what an order needs
    tasks: TaskGroup,
    steering: Steering,
    run: ObservedRun,
    connection: Connection,
    room: anyio.Semaphore,
    order: SteeringOrder,
) -> None:
    tasks.start_soon(_do, steering, run, connection, room, order)


async def _do(
    steering: Steering, run: ObservedRun, connection: Connection, room: anyio.Semaphore, order: SteeringOrder
) -> None:
    try:
        state, message, thread, turn = await steering.do(order)
    finally:
        room.release()
    report = OrderReport(
        client_id=CLIENT_ID,
        origin=run.origin,
        number=order.number,
        state=state,
        message=message,
        thread=thread,
        turn=turn,
    )
    try:
        await connection.ask("steered", report, Nothing, timeout=_ANSWER_S)
    except LifebusError:  # the broker is gone, and with it whoever waited
        return
