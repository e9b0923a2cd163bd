"""A forked process as asyncio has its own: streams that are awaited, and an end that is waited for."""

import asyncio
import signal
from contextlib import suppress
from typing import IO

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint

from support.fork_server import Forked


class _Input(ByteSendStream):
    """A pipe to the process; what does not fit into it is buffered, as asyncio does it for its own processes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def send(self, item: bytes) -> None:
        self.writer.write(item)
        await self.writer.drain()

    async def aclose(self) -> None:
        self.writer.close()
        await checkpoint()


class _Output(ByteReceiveStream):
    """A pipe from the process, which is read ahead, as asyncio does it for its own processes."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader = reader
        self._transport = transport

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._reader.read(max_bytes)
        if not data:
            raise anyio.EndOfStream
        return data

    async def aclose(self) -> None:
        self._transport.close()
        await checkpoint()


class ForkedProcess(Process):
    """What the suite needs of a process that anyio has opened, with the same meaning."""

    def __init__(self, forked: Forked, stdin: _Input | None, stdout: _Output | None, stderr: _Output | None) -> None:
        self._forked = forked
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr

    @property
    def pid(self) -> int:
        return self._forked.pid

    @property
    def returncode(self) -> int | None:
        return self._forked.poll()

    @property
    def stdin(self) -> ByteSendStream | None:
        return self._stdin

    @property
    def stdout(self) -> ByteReceiveStream | None:
        return self._stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return self._stderr

    async def wait(self) -> int:
        if self._forked.returncode is None:
            await anyio.wait_readable(self._forked.status)
        return self._forked.wait()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, signal: int) -> None:
        self._forked.send_signal(signal)

    async def aclose(self) -> None:
        """Close the pipes and wait for its end."""
        with anyio.CancelScope(shield=True):
            for stream in (self._stdin, self._stdout, self._stderr):
                if stream is not None:
                    await stream.aclose()
            await self.wait()
            if self._stdin is not None:
                with suppress(OSError):  # it did not read all that was written
                    await self._stdin.writer.wait_closed()


async def attach(forked: Forked) -> ForkedProcess:
    """Return the process with its pipes on the running event loop."""
    stdin = None if forked.stdin is None else await _attach_input(forked.stdin)
    outputs = [None if pipe is None else await _attach_output(pipe) for pipe in (forked.stdout, forked.stderr)]
    return ForkedProcess(forked, stdin, *outputs)


async def _attach_input(pipe: IO[bytes]) -> _Input:
    loop = asyncio.get_running_loop()
    flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: flow, pipe)
    return _Input(asyncio.StreamWriter(transport, flow, None, loop))


async def _attach_output(pipe: IO[bytes]) -> _Output:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return _Output(reader, transport)
