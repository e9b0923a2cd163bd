"""Waits for a broker that is not there yet."""

from pathlib import Path
from typing import Final

import anyio

from lifebus._internal.connection import broker_directory
from lifebus_contract import TransportError
from lifebus_transports.runtime_dir import is_lock_free

# Between two looks: a broker that is just starting is met soon, one that comes next hour costs next to nothing.
_FIRST_LOOK_S: Final = 0.02
_LOOK_S: Final = 0.3


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
