"""Emissions from threads: the loop sends them at once, and the answer wakes the thread, without a task for either."""

import time
from asyncio import AbstractEventLoop
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from anyio.from_thread import BlockingPortal

from lifebus._internal.outbox import EmitCall, Outbox
from lifebus_contract import Emission
from lifebus_transports.messages.emissions import EmitResult


class BlockingEmits:
    """Records emissions for any number of threads, none of which waits for another; `loop` is that of the portal.

    A portal starts a task for each call, which takes several turns of its loop.  Only what a busy broker refused, or
    what has no answer, is asked again in such a task.
    """

    def __init__(self, portal: BlockingPortal, loop: AbstractEventLoop, outbox: Outbox) -> None:
        self._portal, self._loop, self._outbox = portal, loop, outbox

    def record(self, emissions: Sequence[Emission], *, seconds: float) -> list[EmitResult]:
        """Return the results, in order, as `Outbox.record` does.

        Raises:
            DeadlineExceeded: no answer within `seconds`; what became of the emissions is unknown.
        """
        if not emissions:
            return []
        call, settled = EmitCall(emissions), Future[None]()
        call.settled = settled
        deadline = time.monotonic() + seconds
        self._loop.call_soon_threadsafe(self._outbox.send, call)
        try:
            with suppress(TimeoutError):
                settled.result(call.patience(seconds))
        except BaseException:  # the thread was interrupted: nobody waits for the answer any more
            self._loop.call_soon_threadsafe(self._outbox.leave, call)
            raise
        results = call.answers()
        if results is None:
            ask = partial(self._outbox.ask_again, call, left=deadline - time.monotonic(), seconds=seconds)
            results = self._portal.call(ask)
        return results
