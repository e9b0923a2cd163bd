"""Comes to a broker and leaves it, also one that is not there yet, and at Ctrl-C in order."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import zmq

from lifebus._internal.connection import Connection, broker_directory
from lifebus_contract import DeadlineExceeded, TransportError
from lifebus_transports.messages.common import Nothing
from lifebus_transports.runtime_dir import is_lock_free

T = TypeVar("T")

_INTERRUPTED: Final = 130
"""What a shell makes of a program that Ctrl-C ended."""

# Between two looks: a broker that is just starting is met soon, one that comes next hour costs next to nothing.
_FIRST_LOOK_S: Final = 0.02
_LOOK_S: Final = 0.3


async def open_connection(path: Path, seconds: float) -> Connection:
    """Return a connection on which the broker has answered.

    Raises:
        TransportError: no broker answers.
        LifebusError: the directory or the broker is not this user's.
    """
    directory = broker_directory(path)
    connection = Connection(zmq.Context(), directory)
    try:
        # A file may be left by a broker that was killed: only an answer proves that one runs.
        await connection.ask("ping", Nothing(), Nothing, timeout=seconds, watch=True)
    except BaseException as fault:
        await leave(connection)
        if isinstance(fault, DeadlineExceeded):
            raise TransportError(f"the broker at {directory} does not answer", code="no_broker") from None
        raise
    return connection


async def first_connection(path: Path, seconds: float) -> Connection:
    """Return a connection to the broker that is there, or comes in time.

    Raises:
        LifebusError: as `open_connection`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        await broker_appears(path, until - loop.time())
        try:
            return await open_connection(path, until - loop.time())
        except TransportError as fault:
            # It went away before it answered; another one may come.
            if fault.code != "no_broker" or loop.time() >= until:
                raise


async def leave(connection: Connection) -> None:
    """Close a connection, and what belongs to it."""
    connection.close()
    # In a thread and shielded: closing sockets may take the linger, and must finish even when cancelled.
    leaving = asyncio.get_running_loop().run_in_executor(None, connection.context.term)  # at most the linger
    await asyncio.shield(leaving)


async def broker_appears(directory: Path, seconds: float) -> None:
    """Return once a broker holds a runtime directory and has its sockets there; it may not answer yet.

    Raises:
        TransportError: none came in time (`no_broker`).
        LifebusError: the directory, or one above it, is not ours alone (`directory_owner`, `directory_mode`).
    """
    pause = _FIRST_LOOK_S
    with anyio.move_on_after(max(0.0, seconds)):
        while not _is_there(directory):
            await anyio.sleep(pause)
            pause = min(2 * pause, _LOOK_S)
        return
    detail = f"no broker came to {directory} in time; `lifebus up` starts one, `lifebus up --detach` in the background"
    raise TransportError(detail, code="no_broker")


def _is_there(directory: Path) -> bool:
    try:
        found = broker_directory(directory)
    except TransportError:
        return False
    # The sockets of a broker that was killed stay; its lock is free.
    return not is_lock_free(found / "lock")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine `main` with asyncio and return what it returns.

    At Ctrl-C it is cancelled, so that its connections are closed in order, and the process exits with 130.
    """
    try:
        return asyncio.run(main)
    except KeyboardInterrupt:
        # A traceback would say where the program waited, which is no fault of it.
        raise SystemExit(_INTERRUPTED) from None
