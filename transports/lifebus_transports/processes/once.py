"""One fresh child a run: a document in, what it wrote out, and its end.

The children belong to a task group, which ends them: whoever waits for a run is never held beyond its deadline by a
child that does not want to go.
"""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.processes.child import TERM_S, ChildProcess
from lifebus_transports.processes.outcomes import Failure, Finished, spawn_failure
from lifebus_transports.processes.spec import CommandSpec

_PIPE_HELD_S: Final = 0.05
"""How long the output of a child that has ended may stay open, in seconds: what it has started holds it."""


class Commands:
    """Runs commands; `tasks` owns their children, and its end is theirs.  `running` counts those that are not gone."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.running = 0
        self._tasks = tasks

    async def run_once(self, spec: CommandSpec, stdin: bytes, seconds: float, bodies: Sequence[str] = ()) -> Finished:
        """Run a command with `stdin` and return how it ended, after `seconds` at the latest.

        `bodies` are texts that must not stand in what is kept of stderr.  Cancelling ends the child, too.
        """
        run = self.start(spec, stdin, bodies)
        try:
            with anyio.move_on_after(seconds):
                await run.done.wait()
        finally:
            run.abandon()
        return run.finished()

    def start(
        self,
        spec: CommandSpec,
        stdin: bytes,
        bodies: Sequence[str] = (),
        gone: Callable[[], None] = lambda: None,
    ) -> "Run":
        """Start a run; wait for its `done`, and call `abandon` in any case.  `gone` is called when its child is."""
        run = Run(spec, stdin, bodies)
        self.running += 1
        self._tasks.start_soon(self._run, run, gone)
        return run

    async def _run(self, run: "Run", gone: Callable[[], None]) -> None:
        try:
            await run.run()
        finally:
            self.running -= 1
            gone()


class Run:
    """One run of a command.  `done` is set when it has ended, its child is reaped and all that it wrote is here."""

    def __init__(self, spec: CommandSpec, stdin: bytes, bodies: Sequence[str]) -> None:
        self.done = anyio.Event()
        self._spec = spec
        self._stdin = stdin
        self._bodies = bodies
        self._child: ChildProcess | None = None
        self._output = bytearray()
        self._failure: Failure | None = None
        self._detail = ""
        self._abandoned = self._pipe_held = self._exited = False
        self._unread = 0

    def abandon(self) -> None:
        """Wait no longer; a child that still runs is asked to end, then killed."""
        self._abandoned = True
        if self._child is not None:
            self._child.request_end()

    def finished(self) -> Finished:
        """Return how the run ended; of one that has not, that it missed its deadline, and what is known so far."""
        status = None if self._child is None else self._child.status
        code = status if status is not None and status >= 0 else None
        number = -status if status is not None and status < 0 and self._exited else None
        return Finished(
            stdout=bytes(self._output),
            stderr="" if self._child is None else self._child.redacted_errors(self._bodies),
            exit_code=code,
            signal=number,
            failure=self._failure_of(code, number),
            detail=self._detail,
            pipe_held=self._pipe_held,
        )

    async def run(self) -> None:
        """Run the child from its start to its end: the owner's task."""
        # The caller was cancelled before the owner's task came to run.
        if self._abandoned:
            return
        try:
            self._child = child = ChildProcess(self._spec, self._take)
        except (OSError, ValueError) as fault:
            found = spawn_failure(fault)
            self._failure, self._detail = found.failure, found.detail
            self.done.set()
            return
        try:
            child.send(self._stdin, last=True)
            await child.ending.wait()
            self._exited = child.exited.is_set()
            if self._exited:
                await self._drain_outputs(child)
        finally:
            # No SIGTERM for a child that floods its output: it would go on writing.
            await child.end(0 if self._failure is Failure.TOO_LARGE else TERM_S)
            self.done.set()

    async def _drain_outputs(self, child: ChildProcess) -> None:
        """Read what is left of a child that has ended; a process that it started may hold its output for a moment."""
        self._unread = child.unread
        child.drain()
        with anyio.move_on_after(_PIPE_HELD_S):
            await child.outputs_closed.wait()
        self._pipe_held = not child.outputs_closed.is_set()

    def _take(self, data: bytes) -> None:
        if self._failure is not None:
            return
        self._output += data
        if len(self._output) > MAX_MESSAGE_BYTES + 1:  # a document of the largest size, and a line end
            self._failure = Failure.TOO_LARGE
            self._output.clear()
            if self._child is not None:
                self._child.request_end()

    def _failure_of(self, code: int | None, number: int | None) -> Failure | None:
        if self._failure is not None:
            return self._failure
        if not self.done.is_set() or not self._exited:
            return Failure.DEADLINE
        if number is not None:
            return Failure.KILLED
        if code != 0:
            return Failure.EXIT_CODE
        return Failure.STDIN_IGNORED if self._unread > 1 else None  # the line end may stay
