"""A runtime as a child process that is asked on its stdin and answers on its stdout."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import msgspec
from anyio.abc import Process, TaskGroup

from lifebus.loa.protocol import MAX_LINE, Fault, RuntimeFault, RuntimeLine, RuntimeRequest, encode_line
from lifebus_transports.framing.lines import LineFramer, Overlong

T = TypeVar("T")
_CLOSE_S: Final = 3.0
_TAIL: Final = 600


class RuntimeBroken(Exception):
    """The runtime does not speak the protocol: it is gone, says nothing in time, or writes what is no answer."""


class RuntimeProcess:
    """One process after another of the same command.

    `on_event` gets the events that it writes: their names and params.  What it writes to stderr goes to `log`.
    """

    def __init__(
        self,
        command: Sequence[str],
        group: TaskGroup,
        on_event: Callable[[str, msgspec.Raw], None],
        *,
        deadline_s: float,
        log: Path,
    ) -> None:
        self._command, self._group, self._on_event = tuple(command), group, on_event
        self._deadline_s, self._log = deadline_s, log
        self._process: Process | None = None
        self._answers: dict[int, _Slot] = {}
        self._number = 0
        self._reason = "it was not started"

    async def start(self) -> None:
        """Start the command.

        Raises:
            RuntimeBroken: it cannot be started.
        """
        try:
            with self._log.open("ab") as errors:
                self._process = await anyio.open_process(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,  # so that a kill reaches the whole runtime and nothing else
                )
        except OSError as fault:
            raise RuntimeBroken(f"`{self._command[0]}` cannot be started: {fault.strerror or fault}") from fault
        self._reason = ""
        self._group.start_soon(self._read, self._process)

    @property
    def is_running(self) -> bool:
        """Whether the process is there and has broken no rule of the lines."""
        return self._process is not None and self._process.returncode is None and not self._reason

    async def ask(self, method: str, params: object, kind: type[T], *, wait_s: float = 0.0) -> T:
        """Send a request and return the answer; `wait_s` is how long the request itself allows to wait.

        Raises:
            RuntimeFault: the runtime refuses.
            RuntimeBroken: there is no answer, or none of this kind.
        """
        line = await self._exchange(method, params, self._deadline_s + wait_s)
        if line.error is not msgspec.UNSET:
            raise RuntimeFault(line.error.code, line.error.message)
        try:
            return msgspec.json.decode(line.result if line.result is not msgspec.UNSET else b"", type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as fault:
            raise RuntimeBroken(f"the answer to `{method}`: {fault}") from fault

    async def kill(self) -> None:
        """End the runtime and its group with SIGKILL, as a crash does."""
        process = self._process
        if process is None:
            return
        self._break("it was killed")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.aclose()
        self._process = None

    async def close(self) -> None:
        """Close its stdin, wait a moment for its end, and kill what is left."""
        process = self._process
        if process is None:
            return
        self._break("it was closed")
        if process.stdin is not None:
            with contextlib.suppress(OSError, anyio.BrokenResourceError):
                await process.stdin.aclose()
        with anyio.move_on_after(_CLOSE_S):
            await process.wait()
        # Its group too: what it has started must not be left behind.
        await self.kill()

    async def _exchange(self, method: str, params: object, deadline_s: float) -> RuntimeLine:
        process = self._process
        if process is None or process.stdin is None or self._reason:
            raise RuntimeBroken(self._reason)
        self._number += 1
        number, slot = self._number, _Slot()
        self._answers[number] = slot
        raw = msgspec.Raw(msgspec.json.encode(params))
        try:
            with anyio.fail_after(deadline_s):
                await process.stdin.send(encode_line(RuntimeRequest(id=number, method=method, params=raw)))
                await slot.ready.wait()
        except TimeoutError:
            raise RuntimeBroken(f"no answer to `{method}` within {deadline_s:g} s") from None
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await slot.ready.wait()  # the reader sees the end of the process, and says why
        finally:
            del self._answers[number]
        if slot.line is None:
            raise RuntimeBroken(self._reason)
        return slot.line

    async def _read(self, process: Process) -> None:
        framer = LineFramer(MAX_LINE)
        try:
            while process.stdout is not None:
                for line in framer.feed(await process.stdout.receive()):
                    self._take(line)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            with anyio.move_on_after(_CLOSE_S):
                await process.wait()
            # Another one may have been started meanwhile.
            if process is self._process:
                self._break(f"it ended with code {process.returncode}{self._tail()}")

    def _take(self, line: bytes | Overlong) -> None:
        """Give an answer to who waits for it; a line that is none breaks the runtime."""
        if isinstance(line, Overlong):
            self._break(f"it wrote a line of {line.size} bytes; the limit is {MAX_LINE}")
            return
        try:
            message = msgspec.json.decode(line, type=RuntimeLine)
        except (msgspec.DecodeError, msgspec.ValidationError) as fault:
            self._break(f"it wrote a line that is no answer: {line[:80]!r} ({fault})")
            return
        if isinstance(message.event, str):
            params = message.params if message.params is not msgspec.UNSET else msgspec.Raw(b"{}")
            # A copy: the raw bytes are a view into the line.
            self._on_event(message.event, params.copy())
        elif isinstance(message.id, int) and (slot := self._answers.get(message.id)) is not None:
            slot.line = message
            slot.ready.set()

    def _break(self, reason: str) -> None:
        self._reason = self._reason or reason
        for slot in self._answers.values():
            slot.ready.set()

    def _tail(self) -> str:
        """Return the end of what it wrote to stderr, in a form that fits into evidence."""
        text = self._log.read_text(errors="replace")[-_TAIL:].strip() if self._log.exists() else ""
        return f"; its stderr ends: {text}" if text else ""


class _Slot:
    """Where an answer is put."""

    def __init__(self) -> None:
        self.ready = anyio.Event()
        self.line: RuntimeLine | None = None


async def is_refused(asked: Any, *faults: Fault) -> bool:
    """Whether a request is refused, with one of the faults if some are named."""
    try:
        await asked
    except RuntimeFault as fault:
        return not faults or fault.fault in faults
    return False
