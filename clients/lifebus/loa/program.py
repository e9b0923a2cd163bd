"""The runtime as a program that is asked on its stdin and answers on its stdout (docs/runtime-conformance.md)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from lifebus.client import Bus, connect
from lifebus.loa.handlers import Handlers
from lifebus.loa.own_broker import own_broker
from lifebus.loa.protocol import (
    ESCALATION,
    MAX_LINE,
    Capability,
    EscalationEvent,
    Fault,
    Initialize,
    Initialized,
    RuntimeFault,
    RuntimeRequest,
    decode_params,
    encode_event,
    encode_fault,
    encode_result,
)
from lifebus.loa.runtime import Runtime
from lifebus.loa.types import CONTRACT
from lifebus.stdio.streams import DescriptorReader, DescriptorWriter
from lifebus.stdio.writer import LineWriter
from lifebus.workspace import Workspace
from lifebus_contract import FailureClass, LifebusError
from lifebus_transports.framing.lines import LineFramer, Overlong

_AT_ONCE: Final = 64
_NOT_FOUND: Final = frozenset({"no_run", "no_step", "no_question", "no_file"})
_REFUSED: Final = frozenset({"path_outside", "path_is_link", "path_invalid"})


class RuntimeProgram:
    """One conversation on two descriptors, from `initialize` until the end of the input.

    With `own_broker` a broker of its own runs in the state folder that it is given; else the user's is used.
    """

    def __init__(self, *, own_broker: bool) -> None:
        self._own_broker = own_broker
        self._handlers: Handlers | None = None
        self._stack = AsyncExitStack()
        self._slots = anyio.Semaphore(_AT_ONCE)

    async def serve(self, stdin: int, stdout: int) -> None:
        """Answer requests until the input ends.

        Raises:
            BrokenPipeError: nobody reads the answers any more.
        """
        outlet = DescriptorWriter(stdout)
        lines = LineWriter(outlet)
        try:
            # The broker and the connection outlive the requests that use them.
            async with self._stack, anyio.create_task_group() as group:
                group.start_soon(lines.run)
                async for line in _read_lines(DescriptorReader(stdin)):
                    # Bounded: who asks for more than this at once waits.
                    await self._slots.acquire()
                    group.start_soon(self._serve_line, line, group, lines)
                group.cancel_scope.cancel()
        finally:
            lines.close()
            outlet.close()

    async def _serve_line(self, line: bytes | Overlong, group: TaskGroup, lines: LineWriter) -> None:
        try:
            await lines.put(await self._answer(line, group, lines))
        finally:
            self._slots.release()

    async def _answer(self, line: bytes | Overlong, group: TaskGroup, lines: LineWriter) -> bytes:
        """Return the line that answers a line."""
        try:
            request = msgspec.json.decode(b"" if isinstance(line, Overlong) else line, type=RuntimeRequest)
        except (msgspec.DecodeError, msgspec.ValidationError) as fault:
            return encode_fault("", RuntimeFault(Fault.INVALID, f"this is no request: {fault}"))
        try:
            result = await self._handle(request, group, lines)
        except RuntimeFault as fault:
            return encode_fault(request.id, fault)
        except LifebusError as fault:
            return encode_fault(request.id, _fault_of(fault))
        except OSError as fault:
            return encode_fault(request.id, RuntimeFault(Fault.FAILED, str(fault)))
        answer = encode_result(request.id, result)
        if len(answer) > MAX_LINE:
            return encode_fault(request.id, RuntimeFault(Fault.FAILED, f"the answer is longer than {MAX_LINE} bytes"))
        return answer

    async def _handle(self, request: RuntimeRequest, group: TaskGroup, lines: LineWriter) -> object:
        params = decode_params(request.method, request.params)
        if isinstance(params, Initialize):
            return await self._initialize(params, group, lines)
        if self._handlers is None:
            raise RuntimeFault(Fault.INVALID, "`initialize` comes first")
        return await self._handlers.handle(request.method, params)

    async def _initialize(self, params: Initialize, group: TaskGroup, lines: LineWriter) -> Initialized:
        """Connect to the broker and open the project.

        Raises:
            RuntimeFault: it was done already, or is about another contract.
            LifebusError: no broker answers, or the root cannot be opened.
        """
        if self._handlers is not None or params.contract.partition(".")[0] != CONTRACT.partition(".")[0]:
            raise RuntimeFault(Fault.INVALID, f"`initialize` is done once, and for the contract {CONTRACT}")
        state = Path(params.state)
        runtime_dir = await self._stack.enter_async_context(own_broker(state)) if self._own_broker else None
        bus = await self._stack.enter_async_context(connect("loa", runtime_dir=runtime_dir))
        files = await self._stack.enter_async_context(Workspace(params.root))
        runtime = Runtime(bus, files, state_dir=state)

        async def tell(event: EscalationEvent) -> None:
            await lines.put(encode_event(ESCALATION, event))

        self._handlers = Handlers(runtime, group, tell)
        return Initialized(
            name="lifebus", version=await _version(bus), contract=CONTRACT, capabilities=tuple(Capability)
        )


async def _read_lines(reader: DescriptorReader) -> AsyncIterator[bytes | Overlong]:
    framer = LineFramer(MAX_LINE)
    while data := await reader.read():
        for line in framer.feed(data):
            yield line


async def _version(bus: Bus) -> str:
    return (await bus.status()).version


def _fault_of(fault: LifebusError) -> RuntimeFault:
    """Return a refusal of the bus as one of the protocol, with its code in the words."""
    if fault.code in _NOT_FOUND:
        kind = Fault.NOT_FOUND
    elif fault.code in _REFUSED or fault.failure_class is FailureClass.STATE_CONFLICT:
        kind = Fault.REFUSED
    elif fault.failure_class in (FailureClass.INVALID_REQUEST, FailureClass.PAYLOAD_TOO_LARGE):
        kind = Fault.INVALID
    else:
        kind = Fault.FAILED
    return RuntimeFault(kind, f"{fault.code}: {fault}")
