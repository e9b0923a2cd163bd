"""Whether a broker still runs: its lock is free once its process has ended, however it ended (docs/ledger.md D5).

A request to a broker that died is never answered, and its sockets' files may still be there; the lock says it at once.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio

from lifebus_contract import TransportError
from lifebus_transports.runtime_dir import broker_of, is_lock_free

T = TypeVar("T")

_LOOK_S: Final = 0.3
"""Between two looks; a lock that is free at two of them in a row is not one that a restart takes again at once."""


async def while_broker_lives(directory: Path, work: Callable[[], Awaitable[T]], *, same: bool = False) -> T:
    """Return what `work` returns; end it within a second once no broker runs at a runtime directory.

    With `same` also where another broker has taken the place of the one that ran at first: what that was asked is lost.

    Raises:
        TransportError: the broker is gone (`no_broker`); what became of a request is unknown.
    """
    return await _beside(work, partial(_until_gone, directory, same=same), _gone(directory))


async def across_brokers(directory: Path, work: Callable[[], Awaitable[T]], tell: Callable[[bool], None]) -> T:
    """Return what `work` returns, which outlives its broker.

    `tell` gets True each time no broker runs any more, and False when one runs again.
    """

    async def watch() -> None:
        while True:
            await _until_gone(directory, same=False)
            tell(True)
            while is_lock_free(directory / "lock"):  # noqa: ASYNC110  another process holds it, which raises no event
                await anyio.sleep(_LOOK_S)
            tell(False)

    return await _beside(work, watch, _gone(directory))


async def broker_returns(directory: Path, seconds: float) -> bool:
    """Return whether a broker runs at a runtime directory, as soon as one does or when the time is over."""
    with anyio.move_on_after(max(0.0, seconds)):
        while is_lock_free(directory / "lock"):  # noqa: ASYNC110  another process holds it, which raises no event
            await anyio.sleep(_LOOK_S)
        return True
    return False


async def _beside(work: Callable[[], Awaitable[T]], watch: Callable[[], Awaitable[None]], end: Exception) -> T:
    """Return what `work` returns; where `watch` returns before that, `work` is cancelled and `end` raised."""
    fault = end
    results: list[T] = []

    async def cancel_work() -> None:
        await watch()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_work)
        # Raised outside, as it came: a task group would wrap it.
        try:
            results.append(await work())
        except Exception as raised:  # noqa: BLE001  raised again below
            fault = raised
        tasks.cancel_scope.cancel()
    if results:
        return results[0]
    raise fault


async def _until_gone(directory: Path, *, same: bool) -> None:
    """Return once the lock is free, or with `same` held by another broker than at first."""
    lock, first, was_free = directory / "lock", None, False
    while True:
        # Also of a free lock: its last holder is the one that was asked, and may have died before the first look.
        holder = broker_of(lock) if same else None
        is_free = is_lock_free(lock)
        if (is_free and was_free) or (first and holder and holder != first):
            return
        first, was_free = first or holder, is_free
        await anyio.sleep(_LOOK_S)


def _gone(directory: Path) -> TransportError:
    return TransportError(
        f"the broker at {directory} is gone: it ended before it answered, and what became of the request is unknown",
        code="no_broker",
    )
