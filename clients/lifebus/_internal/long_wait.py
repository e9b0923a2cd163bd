"""Waiting for what may take days: one bounded call after another, whatever broker answers."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from lifebus._internal.backoff import Backoff
from lifebus_contract import DeadlineExceeded, TransportError

WAIT_MS: Final = 20_000
"""How long one call waits in the broker, in milliseconds."""

_FIRST_S: Final = 0.1
_LONGEST_S: Final = 2.0

_Answer = TypeVar("_Answer")


async def ask_until(ask: Callable[[], Awaitable[_Answer]], is_over: Callable[[_Answer], bool]) -> _Answer:
    """Ask again and again, also a later broker, and return the first answer that is over.

    Raises:
        LifebusError: it was refused; that no answer came is none.
    """
    pauses = Backoff(_FIRST_S, _LONGEST_S)
    while True:
        try:
            answer = await ask()
        except (TransportError, DeadlineExceeded):
            await pauses.wait()
            continue
        pauses.reset()
        if is_over(answer):
            return answer
