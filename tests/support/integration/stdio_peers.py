"""`lifebus dev stdio` as an editor starts it, a real process; and much sooner there, on pipes within the test."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from lifebus.stdio.peer import serve_peer
from lifebus.stdio.streams import DescriptorReader, DescriptorWriter
from lifebus_contract import encode_json
from lifebus_supervisor.daemon.composition import Daemon
from support.command_line import fork
from support.integration.following import frame
from support.integration.forked_process import ForkedProcess, attach
from support.patience import PATIENCE_S

_MAX_LINE = 32 * 1_048_576
Message = dict[str, Any]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lifebus", "dev", "stdio", *arguments]


def environment(runtime_dir: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONWARNINGS": "error",
        "HOME": str(runtime_dir),
        "LIFEBUS_RUNTIME_DIR": str(runtime_dir),
    }


class Peer:
    """The editor's side.  Messages that are not waited for yet are kept in order."""

    def __init__(
        self,
        stdout: ByteReceiveStream,
        write: Callable[[bytes], Coroutine[Any, Any, None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.write = write
        self.close_stdin = close
        self._lines = BufferedByteReceiveStream(stdout)
        self._stdout = stdout
        self._numbers = itertools.count()
        self._kept: list[Message] = []

    async def send(self, *messages: Message) -> None:
        await self.write(b"".join(json.dumps(message, ensure_ascii=False).encode() + b"\n" for message in messages))

    async def line(self) -> bytes:
        """Return the next line, whatever it is."""
        with anyio.fail_after(PATIENCE_S):
            return await self._lines.receive_until(b"\n", _MAX_LINE)

    async def wait(self, wanted: Callable[[Message], object]) -> Message:
        """Return the next message of a kind; others are kept for later."""
        for index, message in enumerate(self._kept):
            if wanted(message):
                return self._kept.pop(index)
        while True:
            message = json.loads(await self.line())
            if wanted(message):
                return dict(message)
            self._kept.append(message)

    async def answer(self, number: object) -> Message:
        return await self.wait(lambda message: "id" in message and message["id"] == number)

    async def ask(self, verb: str, body: Message | None = None) -> Message:
        """Return the answer to one question."""
        number = next(self._numbers)
        await self.send({"id": number, "verb": verb} | ({} if body is None else {"body": body}))
        return await self.answer(number)

    async def items(self, subscription: int, many: int) -> list[Message]:
        """Return the next items of a subscription."""
        return [
            await self.wait(lambda message: message.get("subscription") == subscription and "id" not in message)
            for _ in range(many)
        ]

    async def rest(self) -> list[Message]:
        """Return what comes until the output ends, with what was kept before."""
        data = self._lines.buffer
        with anyio.fail_after(PATIENCE_S):
            async for chunk in self._stdout:
                data += chunk
        return self._kept + [json.loads(line) for line in data.splitlines()]


class ProcessPeer(Peer):
    """The editor's side of a process with pipes behind its streams."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdout, process.stdin.send, process.stdin.aclose)
        self.process = process

    async def ended(self) -> int:
        with anyio.fail_after(PATIENCE_S):
            return await self.process.wait()

    async def errors(self) -> str:
        """Return everything that it wrote on stderr; it must have ended."""
        assert self.process.stderr is not None
        return b"".join([chunk async for chunk in self.process.stderr]).decode()


@asynccontextmanager
async def stdio_peer(where: Daemon | Path, *arguments: str) -> AsyncIterator[ProcessPeer]:
    """A running process; at the end of the block its input ends, it exits with 0 and has nothing to complain about."""
    async with raw_peer(where, *arguments) as peer:
        yield peer
        await peer.close_stdin()
        await peer.rest()
        assert (await peer.ended(), await peer.errors()) == (0, "")


@asynccontextmanager
async def raw_peer(where: Daemon | Path, *arguments: str) -> AsyncIterator[ProcessPeer]:
    """A running process that the test ends itself; it is gone at the end of the block."""
    runtime_dir = where if isinstance(where, Path) else where.settings.runtime_dir
    process = await start_stdio(runtime_dir, *arguments)
    try:
        yield ProcessPeer(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()


async def start_stdio(
    runtime_dir: Path,
    *arguments: str,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> ForkedProcess:
    """Start `lifebus dev stdio` in a process whose imports are done; the caller closes it."""
    words = ["dev", "stdio", *arguments]
    return await attach(fork(words, environment(runtime_dir), stdin=stdin, stdout=stdout, stderr=stderr))


class _Reading(ByteReceiveStream):
    """A descriptor as a stream."""

    def __init__(self, descriptor: int) -> None:
        self._inlet = DescriptorReader(descriptor)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._inlet.read()
        if not data:
            raise anyio.EndOfStream
        return data

    async def aclose(self) -> None:
        """Nothing to do: whoever opened the descriptor closes it."""


@asynccontextmanager
async def near_peer(daemon: Daemon, *, seconds: float = PATIENCE_S) -> AsyncIterator[Peer]:
    """A peer on pipes in this process; at the end of the block its input ends, and with that it does."""
    with (
        _pipe() as stdin,
        _pipe() as stdout,
        closing(DescriptorWriter(stdin[1])) as asking,
        closing(DescriptorWriter(stdout[1])) as out,
    ):
        speaking = asyncio.ensure_future(
            serve_peer(DescriptorReader(stdin[0]), out, runtime_dir=daemon.settings.runtime_dir, timeout=seconds)
        )

        async def close() -> None:
            _close_writing(stdin)

        peer = Peer(_Reading(stdout[0]), asking.write, close)
        speaking.add_done_callback(lambda _: _close_writing(stdout))
        try:
            yield peer
            await peer.close_stdin()
            await peer.rest()
        finally:
            speaking.cancel()
            await asyncio.wait((speaking,))
        speaking.result()


@contextmanager
def _pipe() -> Iterator[list[int]]:
    """The reading and the writing end; `_close_writing` closes the latter before the end of the block."""
    pipe = list(os.pipe())
    try:
        yield pipe
    finally:
        for end in pipe:
            os.close(end)


def _close_writing(pipe: list[int]) -> None:
    if len(pipe) > 1:
        os.close(pipe.pop())


def emission(session: str = "s1", **fields: Any) -> Message:
    """An emission as JSON, with fresh ids and a key."""
    return {"request": json.loads(encode_json(frame(session, **fields)))}


def emit(*emissions: Message, client_id: str = "editor") -> Message:
    """The body of `emit`."""
    return {"client_id": client_id, "emissions": list(emissions)}
