"""The child's end of the channel: messages of the broker in, answers out, one task a call."""

import asyncio
import resource
import socket
from functools import partial
from typing import Any, Final

from lifebus._extension_host.runner import Runner
from lifebus.extensions import ToolRefused
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.messages.extensions.host import (
    MAX_LINE_BYTES,
    CallHandler,
    CancelCall,
    ExtensionLog,
    FromChild,
    Importing,
    LoadingEnded,
    LoadModules,
    Settled,
    ToolAnswer,
    ToolFault,
    UseTool,
    encode_line,
    from_parent,
)

_CHUNK: Final = 65_536
_MIB: Final = 1_048_576


def limit_memory(memory_mb: int) -> None:
    """Bound the address space of this process, for good."""
    limit = memory_mb * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # A core of a process that ran into its bound helps nobody, and may fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Program:
    """Serves one broker until it closes the channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._runner = Runner(self._log)
        self._calls: dict[int, asyncio.Task[Settled]] = {}
        self._uses: dict[tuple[int, int], asyncio.Future[Any]] = {}

    async def run(self) -> None:
        """Serve until the end of the channel."""
        framer = LineFramer(MAX_LINE_BYTES)
        while data := await self._reader.read(_CHUNK):
            for line in framer.feed(data):
                if isinstance(line, Overlong):
                    raise ConnectionError("the broker sent a line that is too long")
                await self._take(from_parent.decode(line))
        for task in self._calls.values():
            task.cancel()

    async def _take(self, message: object) -> None:
        match message:
            case LoadModules(modules):
                for source in modules:
                    # Sent off before the import, which may end or hold up this process.
                    await self._send(Importing(source.module_name), drain=True)
                    await self._send(self._runner.load(source), drain=True)
                await self._send(LoadingEnded(), drain=True)
            case CallHandler():
                task = asyncio.create_task(self._call(message))
                self._calls[message.number] = task
                task.add_done_callback(partial(self._settle, message.number))
            case CancelCall(number):
                if (running := self._calls.get(number)) is not None:
                    running.cancel()
            case ToolAnswer():
                self._answer(message)
            case _:
                raise TypeError(f"no message of the broker: {type(message).__name__}")

    async def _call(self, call: CallHandler) -> Settled:
        uses = 0

        async def ask(tool: str, arguments: dict[str, Any]) -> Any:
            nonlocal uses
            uses += 1
            key = call.number, uses
            self._uses[key] = asyncio.get_running_loop().create_future()
            try:
                await self._send(UseTool(*key, tool, arguments))
                return await self._uses[key]
            finally:
                del self._uses[key]

        return await self._runner.call(call, ask)

    def _settle(self, number: int, task: "asyncio.Task[Settled]") -> None:
        """Say how a call ended, also one that was cancelled before it began."""
        del self._calls[number]
        if task.cancelled():
            settled = Settled(number, fault=ToolFault("handler_cancelled", "the handler was cancelled"))
        else:
            settled = task.result()
        if not self._writer.is_closing():
            self._writer.write(encode_line(settled))

    def _answer(self, answer: ToolAnswer) -> None:
        future = self._uses.get((answer.number, answer.use))
        if future is None or future.done():
            return
        if answer.fault is not None:
            future.set_exception(ToolRefused(answer.fault.code, answer.fault.text))
        else:
            future.set_result(answer.value)

    def _log(self, line: ExtensionLog) -> None:
        # What the broker does not take in time is lost: a log must not fill the memory.
        if self._writer.transport.get_write_buffer_size() < MAX_LINE_BYTES:
            self._writer.write(encode_line(line))

    async def _send(self, message: FromChild, *, drain: bool = False) -> None:
        self._writer.write(encode_line(message))
        if drain:
            await self._writer.drain()


async def serve(descriptor: int) -> None:
    """Serve the broker at the other end of a socket."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    try:
        await Program(reader, writer).run()
    finally:
        writer.close()
