"""One try of a step: its program runs in a session of its own, and its end comes back as a value."""

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess
from lifebus_contract.flows import Outcome, OutcomeKind, ProcessLimits
from lifebus_transports.processes.child import ChildProcess
from lifebus_transports.processes.identity import identify
from lifebus_transports.processes.spec import CommandSpec

_FIRST_SIGNAL_CODE: Final = 129
_LAST_SIGNAL_CODE: Final = 128 + 64


class StepCommand(Struct, frozen=True, kw_only=True):
    """What is run for one try.  `environment` is all of it, `cwd` an absolute path.

    `output` is a path without an ending: what the program writes goes to ``OUTPUT.out`` and ``OUTPUT.err``.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    output: Path
    time_limit_ms: int | None = None
    grace_ms: int = 5_000
    limits: ProcessLimits = ProcessLimits()


class StepEnd(Struct, frozen=True, kw_only=True):
    """How a try ended.  `process` is None where none was started, or the system does not say.

    `tail` is the end of what it wrote to stderr, redacted, at most 500 characters; `left` counts the processes that it
    left behind and that had to be ended.
    """

    outcome: Outcome
    duration_ms: int
    process: CallerProcess | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    tail: str = ""
    left: int = 0


async def run_step(command: StepCommand, *, cancelled: anyio.Event) -> StepEnd:
    """Run the program to its end and return how it ended; never raises for what the program does.

    When `cancelled` is set, or its time limit is over, it is asked to end, and killed after its grace.  A caller that
    is cancelled takes the program along.
    """
    began = time.monotonic_ns()
    sizes = [0, 0]
    spec = CommandSpec(argv=command.argv, setting=command.environment, cwd=command.cwd)

    def take(data: bytes) -> None:
        sizes[0] += len(data)

    try:
        child = ChildProcess(spec, take)
    except (OSError, ValueError) as fault:
        detail = str(fault)
        return StepEnd(outcome=Outcome(kind=OutcomeKind.CANNOT_START, detail=detail), duration_ms=_since_ms(began))
    process = identify(child.pid)
    ended_by: OutcomeKind | None = None
    try:
        child.send(b"", last=True)
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await cancelled.wait()
                child.request_end()

            tasks.start_soon(watch)
            limit = None if command.time_limit_ms is None else command.time_limit_ms / 1_000
            with anyio.move_on_after(limit) as scope:
                await child.ending.wait()
            if scope.cancelled_caught:
                ended_by = OutcomeKind.TIMED_OUT
            elif not child.exited.is_set():
                ended_by = OutcomeKind.ABORTED
            tasks.cancel_scope.cancel()
    finally:
        await child.end(command.grace_ms / 1_000)
    return StepEnd(
        outcome=_outcome_of(child.status, ended_by),
        duration_ms=_since_ms(began),
        process=process,
        stdout_bytes=sizes[0],
        tail=child.redacted_errors([]),
    )


def _outcome_of(status: int | None, ended_by: OutcomeKind | None) -> Outcome:
    code = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    if ended_by is not None:
        return Outcome(kind=ended_by, code=code, signal=number)
    if number is None and code is not None and _FIRST_SIGNAL_CODE <= code <= _LAST_SIGNAL_CODE:
        number = code - 128
    kind = OutcomeKind.EXITED if number is None else OutcomeKind.SIGNALLED
    return Outcome(kind=kind, code=code, signal=number, detail="" if number is None else _name_of(number))


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _since_ms(began: int) -> int:
    return (time.monotonic_ns() - began) // 1_000_000
