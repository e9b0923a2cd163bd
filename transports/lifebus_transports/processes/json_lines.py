"""A child process that is asked in JSON lines and answers in JSON lines, one each, for callers without an event loop.

Whatever it does, a question ends in an answer or a `ProgramFault`, after its deadline at the latest.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

import anyio
import msgspec

from lifebus_contract import InvalidRequest, load_json
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.processes.child import ChildProcess
from lifebus_transports.processes.spec import CommandSpec

MAX_ANSWER_BYTES: Final = 2_097_152
"""Longest answer, in bytes."""

_MAX_ITEMS: Final = 65_536
_MAX_STARTS: Final = 8
_END_S: Final = 2.0


class ProgramFault(Exception):
    """The program broke the protocol: no answer in time, none at all, or nonsense.  Its text says which."""


class JsonLines:
    """A program to be asked.  It is started when it is first needed, and again after a fault, a few times.

    It has the caller's environment and stderr.  A program that was started is to be ended with `finish` or `kill`.
    """

    def __init__(self, command: Sequence[str], deadline_s: float) -> None:
        self._spec = CommandSpec(argv=tuple(command), passing=("*",))
        self._deadline_s = deadline_s
        self._starts = 0
        # One event loop for the life of a child, which runs while somebody waits; between questions pipes hold bytes.
        self._runner: asyncio.Runner | None = None
        self._child: ChildProcess | None = None
        self._framer = LineFramer(MAX_ANSWER_BYTES)
        self._lines: list[bytes | Overlong] = []
        self._spoke = anyio.Event()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            ProgramFault: there is none, or it is no JSON object.
        """
        self._runner = self._runner or self._new_runner()
        try:
            line = self._runner.run(self._exchange(msgspec.json.encode(question) + b"\n"))
            answer: Any = load_json(line, max_bytes=MAX_ANSWER_BYTES, max_items=_MAX_ITEMS)
        except InvalidRequest as fault:
            self.kill()
            raise ProgramFault(f"its answer is no strict JSON: {fault.detail}") from None
        except ProgramFault:
            self.kill()
            raise
        # A whole line of JSON: no reason to start the program anew.
        if not isinstance(answer, dict):
            raise ProgramFault("its answer is not an object")
        return cast("dict[str, Any]", answer)

    def finish(self) -> int | None:
        """Close its input and return its exit code; None where it did not end by itself, and had to be killed."""
        if self._runner is None or self._child is None:
            return 0
        code = self._runner.run(_finish(self._child))
        self.kill()
        return code

    def kill(self) -> None:
        """End the program and all that it started."""
        runner, self._runner = self._runner, None
        child, self._child = self._child, None
        if runner is not None:
            with runner:
                if child is not None:
                    runner.run(child.end(0))

    def _new_runner(self) -> asyncio.Runner:
        self._starts += 1
        if self._starts > _MAX_STARTS:
            raise ProgramFault(f"it broke off {_MAX_STARTS} times and is not started again")
        return asyncio.Runner()

    def _start(self) -> ChildProcess:
        # What an earlier child left half written is not this one's.
        self._framer, self._lines = LineFramer(MAX_ANSWER_BYTES), []
        try:
            return ChildProcess(self._spec, self._take, keep_errors=False)
        except (OSError, ValueError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise ProgramFault(f"it cannot be started: {reason}") from None

    async def _exchange(self, question: bytes) -> bytes:
        self._spoke = anyio.Event()
        child = self._child = self._child or self._start()
        child.send(question)
        with anyio.move_on_after(self._deadline_s):
            await _first_of(self._spoke, child.outputs_closed, child.exited)
        child.drain()  # its exit is seen before its last words
        return self._answer_of(child)

    def _take(self, data: bytes) -> None:
        self._lines += self._framer.feed(data)
        if self._lines or self._framer.is_overlong:
            self._spoke.set()

    def _answer_of(self, child: ChildProcess) -> bytes:
        lines, self._lines = self._lines, []
        match lines:
            case [bytes() as line] if not self._framer.unfinished and child.unread <= 1:  # the line end may stay
                return line
            case [bytes(), *_]:
                raise ProgramFault("it answers before it was asked, or more than one line")
            case [] if not self._framer.is_overlong and (child.outputs_closed.is_set() or child.exited.is_set()):
                raise ProgramFault("it ended, or closed its output, without an answer")
            case [] if not self._framer.is_overlong:
                raise ProgramFault(f"no answer within {self._deadline_s:g} s")
            case _:
                raise ProgramFault(f"an answer of more than {MAX_ANSWER_BYTES} bytes")


async def _first_of(*events: anyio.Event) -> None:
    """Wait until one of the events is set."""
    async with anyio.create_task_group() as waiting:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            waiting.cancel_scope.cancel()

        for event in events:
            waiting.start_soon(wait, event)


async def _finish(child: ChildProcess) -> int | None:
    child.send(b"", last=True)
    with anyio.move_on_after(_END_S):
        await child.exited.wait()
    # Before the end below, which kills what has not ended by itself.
    ended = child.exited.is_set()
    await child.end(0)
    return child.status if ended else None
