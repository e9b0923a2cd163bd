"""A cable between a browser and a gateway, which a test can cut: then nothing comes through, and nobody is told."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketStream


class Cable:
    """Passes bytes on between a port of its own and that of a gateway, while it is whole."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.target = 0
        self._whole = anyio.Event()
        self._whole.set()

    def cut(self) -> None:
        """Let nothing through any more; what is sent stays in the cable, as with a network that is gone."""
        self._whole = anyio.Event()

    def mend(self) -> None:
        """Let everything through again."""
        self._whole.set()

    async def serve(self, client: SocketStream) -> None:
        """Pass one connection on until both sides are done."""
        async with client:
            await self._whole.wait()
            try:
                server = await anyio.connect_tcp("127.0.0.1", self.target)
            except OSError:  # the gateway is gone: so is the connection
                return
            async with server, anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass, client, server)
                tasks.start_soon(self._pass, server, client)

    async def _pass(self, source: SocketStream, sink: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            async for data in source:
                await self._whole.wait()
                await sink.send(data)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError, OSError):
            await sink.send_eof()


@asynccontextmanager
async def laid_cable() -> AsyncGenerator[Cable]:
    """A cable that listens; its `target` is set once the gateway listens."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", family=socket.AF_INET) as listener:
        cable = Cable(listener.extra(anyio.abc.SocketAttribute.local_port))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, cable.serve)
            yield cable
            tasks.cancel_scope.cancel()
