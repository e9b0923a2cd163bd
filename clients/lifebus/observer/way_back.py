"""The observer's end of the way back to the proxy: lines for the server out, what became of them in."""

import asyncio
import itertools
import os
from time import monotonic
from typing import Final

from lifebus.proxy.steering_socket import BUSY, LATE, REPLY, SteeringCommand, write_command

_PAUSE_S: Final = 0.02
_REPLY_S: Final = 1.0
"""How much longer than its deadline the proxy's word on a line is waited for."""


class ProxyWay:
    """Sends lines by the proxy; none of its numbers was used by another observer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._numbers = itertools.count(int.from_bytes(os.urandom(4), "big") << 24)
        self._replies: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._is_listening = False

    async def send(self, line: bytes, *, position: int, seconds: float, request_id: str = "") -> tuple[int, int]:
        """Have a line sent; return what became of it (lifebus.proxy.steering_socket) and how much passed by then."""
        loop = asyncio.get_running_loop()
        if not self._is_listening:
            self._is_listening = True
            os.set_blocking(self._descriptor, False)
            loop.add_reader(self._descriptor, self._receive)
        until = monotonic() + seconds
        number = next(self._numbers)
        command = write_command(SteeringCommand(number, position, int(until * 1000), request_id, line))
        future: asyncio.Future[tuple[int, int]] = loop.create_future()
        self._replies[number] = future
        try:
            while True:
                try:
                    os.write(self._descriptor, command)
                    break
                except BlockingIOError:  # others wait before it
                    if monotonic() > until:
                        return BUSY, 0
                    await asyncio.sleep(_PAUSE_S)
            # A proxy that is stopped says nothing, and drops the command when it goes on: its time is over by then.
            async with asyncio.timeout(max(0.0, until - monotonic()) + _REPLY_S):
                return await future
        except TimeoutError:
            return LATE, 0
        finally:
            del self._replies[number]

    def _receive(self) -> None:
        try:
            data = os.read(self._descriptor, REPLY.size)
        except OSError:
            return
        if len(data) == REPLY.size:
            number, outcome, position = REPLY.unpack(data)
            # It may be meant for an observer that was here before.
            future = self._replies.get(number)
            if future is not None and not future.done():
                future.set_result((outcome, position))
