"""One child process that runs extensions: started, loaded, asked, ended.  It is never started a second time."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import Raw, Struct

from lifebus_contract import LifebusError
from lifebus_contract.extensions import LoadErrorCode
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.messages.extensions.host import (
    DESCRIPTOR_OPTION,
    MAX_LINE_BYTES,
    MEMORY_OPTION,
    CallHandler,
    CancelCall,
    ExtensionLog,
    FromParent,
    HandlerCall,
    HandlerReturn,
    Imported,
    Importing,
    LoadedModule,
    LoadingEnded,
    LoadModules,
    LogTaker,
    ModuleSource,
    Settled,
    ToolAnswer,
    ToolFault,
    ToolUser,
    UseTool,
    encode_line,
    from_child,
)
from lifebus_transports.processes.child import ChildProcess
from lifebus_transports.processes.output_lines import OutputLines
from lifebus_transports.processes.spec import CommandSpec

GRACE_S: Final = 1.0
"""How long a handler may take to end once its time is over and it was cancelled; then the child is killed."""

_MODULE: Final = "lifebus._extension_host"
_CHUNK: Final = 65_536
_MAX_USES: Final = 256
_MAX_UNSENT: Final = 8 * MAX_LINE_BYTES
_values: Final = msgspec.json.Decoder(Any)
_log = structlog.get_logger("lifebus.extensions")


class ChildSettings(Struct, frozen=True, kw_only=True):
    """How children are run: their bound of memory, further variables to pass on, and the time for one import."""

    memory_mb: int
    environment: tuple[str, ...] = ()
    import_s: float = 10.0


class _Pending:
    """A call that is under way; `settled` is set once it has returned."""

    def __init__(self, use_tool: ToolUser) -> None:
        self.returned: HandlerReturn | None = None
        # No future: a time limit over a wait for one cancels the future itself.
        self.settled = anyio.Event()
        self.use_tool = use_tool
        self.uses = 0

    def settle(self, returned: HandlerReturn) -> None:
        if self.returned is None:
            self.returned = returned
            self.settled.set()


class ExtensionChild:
    """A child with its channel; `ended` is set once it is over, for whatever reason.  `tasks` owns what it does."""

    def __init__(self, settings: ChildSettings, tasks: TaskGroup, log: LogTaker) -> None:
        self.ended = anyio.Event()
        self._settings, self._tasks, self._log = settings, tasks, log
        self._calls: dict[int, _Pending] = {}
        self._numbers = 0
        self._modules: dict[str, LoadedModule] = {}
        self._importing = ""
        self._imported = anyio.Event()
        self._loaded = anyio.Event()
        self._process: ChildProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._why = "the process of the extensions ended"

    async def start(self) -> None:
        """Start the process.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair()
        output = OutputLines(lambda line: _log.info("extension_output", line=line))
        words = (DESCRIPTOR_OPTION, str(theirs.fileno()), MEMORY_OPTION, str(self._settings.memory_mb))
        spec = CommandSpec(
            # `-P`: what lies in the working directory must not take the place of our own modules.
            argv=(sys.executable, "-P", "-m", _MODULE, *words),
            passing=self._settings.environment,
            setting={"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
        )
        try:
            self._process = ChildProcess(spec, output.take, on_errors=output.take, handing_on=(theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._tasks.start_soon(self._follow, reader, self._process)

    @property
    def pid(self) -> int | None:
        """The id of its process."""
        return None if self._process is None else self._process.pid

    async def load(self, modules: Sequence[ModuleSource]) -> list[LoadedModule]:
        """Import modules; where the child ends or does not come back from one, that one has a fault."""
        self._send(LoadModules(tuple(modules)))
        while not self._loaded.is_set() and not self.ended.is_set():
            self._imported = anyio.Event()
            with anyio.move_on_after(self._settings.import_s) as waiting:
                await self._imported.wait()
            if waiting.cancelled_caught:
                self._fail_import(f"it is still not imported after {self._settings.import_s:g} s")
                break
        if not self._loaded.is_set():
            self._fail_import(self._why)
            self.kill("an import failed")
            await self.ended.wait()
        return [self._modules.get(one.module_name) or _untried(one.module_name) for one in modules]

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        """Call a handler; see `ExtensionHost.call`."""
        if self.ended.is_set():
            return _fault("host_ended", self._why)
        if len(call.event) > MAX_LINE_BYTES - 1_024:
            return _fault("event_too_large", f"the event is larger than {MAX_LINE_BYTES} bytes")
        self._numbers += 1
        number = self._numbers
        pending = self._calls[number] = _Pending(use_tool)
        try:
            self._send(CallHandler(number, call.module_name, call.handler, Raw(call.event)))
            with anyio.move_on_after(call.timeout_ms / 1000):
                await pending.settled.wait()
            if pending.returned is not None:
                return pending.returned
            return await self._overdue(number, pending, call)
        finally:
            del self._calls[number]

    def kill(self, why: str) -> None:
        """Have it ended at once; `ended` is set soon after."""
        if self._process is not None and not self.ended.is_set():
            self._why = f"the process of the extensions was ended: {why}"
            self._process.request_end()

    async def _overdue(self, number: int, pending: _Pending, call: HandlerCall) -> HandlerReturn:
        """End a call whose time is over: its task is cancelled; where that does not help, the process goes."""
        self._send(CancelCall(number))
        with anyio.move_on_after(GRACE_S):
            await pending.settled.wait()
        if pending.returned is None:
            self.kill(f"a handler of `{call.module_name}` does not end")
            # Else the next handler of the pass would be called in the process that ends.
            await self.ended.wait()
        return _fault("handler_timeout", f"no result within {call.timeout_ms} ms")

    async def _follow(self, reader: asyncio.StreamReader, process: ChildProcess) -> None:
        """Read what the child says until it is to end, then end it, and tell everybody who waits."""
        try:
            async with anyio.create_task_group() as both:
                both.start_soon(self._read, reader, process)
                await process.ending.wait()
                both.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                if self._writer is not None:
                    self._writer.close()
                await process.end(0)
            self._conclude(process.status)

    def _conclude(self, status: int | None) -> None:
        if status is not None:
            self._why += f" (signal {-status})" if status < 0 else f" (exit code {status})"
        self.ended.set()
        self._imported.set()
        for pending in self._calls.values():
            pending.settle(_fault("host_ended", f"{self._why} while the handler ran"))
        _log.info("extension_host_ended", reason=self._why)

    async def _read(self, reader: asyncio.StreamReader, process: ChildProcess) -> None:
        framer = LineFramer(MAX_LINE_BYTES)
        try:
            while data := await reader.read(_CHUNK):
                for line in framer.feed(data):
                    if isinstance(line, Overlong):
                        self.kill("it sent a line that is too long")
                        return
                    self._take(from_child.decode(line))
        except ValueError as fault:
            self.kill(f"it sent what is no message: {str(fault)[:200]}")
        except ConnectionError:
            pass  # the end of the channel, as below
        process.request_end()

    def _take(self, message: object) -> None:
        match message:
            case Importing(module_name):
                self._importing = module_name
            case Imported():
                self._importing = ""
                self._modules[message.module_name] = LoadedModule(
                    message.module_name, message.registrations, message.fault
                )
                self._imported.set()
            case LoadingEnded():
                self._loaded.set()
                self._imported.set()
            case Settled():
                if (pending := self._calls.get(message.number)) is not None:
                    pending.settle(_returned(message))
            case UseTool():
                self._tasks.start_soon(self._use, message)
            case ExtensionLog():
                self._log(message)
            case _:
                raise ValueError(type(message).__name__)

    async def _use(self, asked: UseTool) -> None:
        """Use a tool for a call, and tell the child what came of it."""
        pending = self._calls.get(asked.number)
        if pending is None or pending.returned is not None or pending.uses >= _MAX_USES:
            fault = ToolFault("tools_closed", "the handler has settled, or has used its tools too often")
            self._send(ToolAnswer(asked.number, asked.use, fault=fault))
            return
        pending.uses += 1
        try:
            value = await pending.use_tool(asked.tool, asked.arguments)
            self._send(ToolAnswer(asked.number, asked.use, value))
        except LifebusError as fault:
            code = fault.code or "refused"
            self._send(ToolAnswer(asked.number, asked.use, fault=ToolFault(code, fault.detail[:1_024])))

    def _send(self, message: FromParent) -> None:
        if self._writer is None or self.ended.is_set() or self._writer.is_closing():
            return
        # A child that does not read hangs; what it is sent meanwhile must not fill the memory.
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT:
            self.kill("it does not read")
            return
        self._writer.write(encode_line(message))

    def _fail_import(self, why: str) -> None:
        if self._importing and self._importing not in self._modules:
            fault = ToolFault(LoadErrorCode.IMPORT_FAILED, why)
            self._modules[self._importing] = LoadedModule(self._importing, fault=fault)


def _returned(message: Settled) -> HandlerReturn:
    if message.fault is not None:
        return HandlerReturn(fault=message.fault)
    try:
        return HandlerReturn(_values.decode(message.value))
    except (ValueError, RecursionError) as fault:
        return _fault("result_unreadable", str(fault)[:200])


def _fault(code: str, text: str) -> HandlerReturn:
    return HandlerReturn(fault=ToolFault(code, text))


def _untried(module_name: str) -> LoadedModule:
    return LoadedModule(module_name, fault=ToolFault(LoadErrorCode.HOST_FAILED, "the process ended before it"))
