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


async def take_orders(steering: Steering, run: ObservedRun, runtime_dir: Path) -> None:
    """Do the orders of every broker that there is, until cancelled."""
    backoff, room = Backoff(*_PAUSE_S), anyio.Semaphore(_MAX_RUNNING)
    async with anyio.create_task_group() as tasks:
        while True:
            try:
                broker_directory(runtime_dir)
                connection = Connection(zmq.Context(), runtime_dir)
                try:
                    begin = partial(_begin, tasks, steering, run, connection, room)
                    await _fetch(connection, run, backoff, room, begin)
                finally:
                    connection.close()
                    connection.context.destroy(linger=0)
            except LifebusError:  # no broker, one that ended, one of an earlier release: there may be another one later
                await backoff.wait()


async def _fetch(
    connection: Connection,
    run: ObservedRun,
    backoff: Backoff,
    room: anyio.Semaphore,
    begin: Callable[[SteeringOrder], None],
) -> None:
    """Begin the orders of one broker.

    Raises:
        LifebusError: it is gone, or knows no orders.
    """
    body = AwaitOrder(client_id=CLIENT_ID, adapter_id=run.adapter_id, origin=run.origin)
    seconds = _ANSWER_S + MAX_WAIT_MS / 1000
    while True:
        await room.acquire()
        try:
            found = (await connection.ask("steer", body, NextOrder, timeout=seconds, lasting=True)).order
        except BaseException:
            room.release()
            raise
        backoff.reset()
        if found is None:
            room.release()
        else:
            begin(found)


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
