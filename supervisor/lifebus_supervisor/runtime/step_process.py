"""One try of a step: its program runs in a session of its own, and its end comes back as a value.

A shim is the program's parent (`lifebus_transports.shims`): it keeps the output and ends what is left, also when this
process is killed.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess
from lifebus_contract.flows import Outcome, OutcomeKind, ProcessLimits
from lifebus_supervisor.runtime.output_files import file_of
from lifebus_supervisor.runtime.step_outcome import never_started, outcome_of
from lifebus_transports.processes.identity import started_as
from lifebus_transports.processes.redaction import StderrTail, redact, secrets_in
from lifebus_transports.processes.shim_child import ShimChild
from lifebus_transports.shims.messages import Limit, ShimCommand

_CANCELLED_GRACE_MS: Final = 500
"""The longest grace when the caller is cancelled: whoever stops this process waits."""

_CPU_GRACE_S: Final = 5
"""Seconds of processor time between SIGXCPU and SIGKILL."""

_MIB: Final = 1_048_576


class StepCommand(Struct, frozen=True, kw_only=True):
    """What is run for one try.  `environment` is all of it, `cwd` an absolute path.

    `output` is a path without an ending: what the program writes goes to ``OUTPUT.out`` and ``OUTPUT.err``.  With
    `records_end` the shim writes to ``OUTPUT.end`` how it ended, also where this process is gone by then.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    output: Path
    time_limit_ms: int | None = None
    grace_ms: int = 5_000
    limits: ProcessLimits = ProcessLimits()
    records_end: bool = False


class StepEnd(Struct, frozen=True, kw_only=True):
    """How a try ended.  `process` is None where none was started, or the system does not say.

    `tail` is the end of what it wrote to stderr, redacted, at most 500 characters; `left` counts the processes that it
    left behind and that had to be ended, `stuck` those that outlived SIGKILL.  `output_fault` says why less of its
    output was kept than should have been.
    """

    outcome: Outcome
    duration_ms: int
    process: CallerProcess | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    tail: str = ""
    left: int = 0
    stuck: int = 0
    output_fault: str = ""


async def run_step(command: StepCommand, *, cancelled: anyio.Event) -> StepEnd:
    """Run the program to its end and return how it ended; never raises for what the program does.

    When `cancelled` is set, or its time limit is over, it is asked to end, and killed after its grace.  A caller that
    is cancelled takes the program along, and gets the end of one that had ended by itself.
    """
    began = time.monotonic_ns()
    child = ShimChild(_shim_command(command))
    child.launch()
    ended_by: OutcomeKind | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end_when, cancelled, child, command.grace_ms)
            limit_s = None if command.time_limit_ms is None else command.time_limit_ms / 1_000
            with anyio.move_on_after(limit_s):  # a shim that somebody stopped does not say that it has begun
                await child.begun.wait()
            with anyio.move_on_after(limit_s) as scope:
                await child.ended.wait()
            if scope.cancelled_caught and not cancelled.is_set():
                ended_by = OutcomeKind.TIMED_OUT
                child.ask_to_end(command.grace_ms)
            await child.ended.wait()
            tasks.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class():
        await _end_with_caller(child, command.grace_ms)
        # One that had ended before it could be asked ended as always, and is not run again for nothing.
        if child.end is None or child.end["asked"]:
            raise
    finally:
        await _end_with_caller(child, command.grace_ms)
    return _step_end(command, child, ended_by or OutcomeKind.ABORTED, (time.monotonic_ns() - began) // 1_000_000)


async def _end_with_caller(child: ShimChild, grace_ms: int) -> None:
    """End what still runs, in little time: its caller is cancelled."""
    if not child.ended.is_set():
        child.ask_to_end(min(grace_ms, _CANCELLED_GRACE_MS))
        with anyio.CancelScope(shield=True):
            await child.ended.wait()


async def wait_for_earlier(output: Path) -> None:
    """Wait until nothing of an earlier try runs whose owner was killed; `output` is that of the try.

    The shim ends it, which takes no longer than some seconds.
    """
    await anyio.to_thread.run_sync(_wait_for_lock, file_of(output, "stdout"), abandon_on_cancel=True)


def _wait_for_lock(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it never began
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


async def _end_when(cancelled: anyio.Event, child: ShimChild, grace_ms: int) -> None:
    await cancelled.wait()
    child.ask_to_end(grace_ms)


def _shim_command(command: StepCommand) -> ShimCommand:
    return {
        "argv": list(command.argv),
        "cwd": command.cwd,
        "environment": dict(command.environment),
        "output": str(command.output),
        "keep": command.limits.output_kb * 1_024,
        "limits": limits_of(command.limits),
        "records_end": command.records_end,
    }


def limits_of(limits: ProcessLimits) -> list[Limit]:
    """Return the limits of the system that a step's processes get."""
    cpu_s = limits.cpu_s
    found: list[tuple[str, int | None, int]] = [
        ("RLIMIT_AS", None if limits.memory_mb is None else limits.memory_mb * _MIB, 0),
        ("RLIMIT_CPU", cpu_s, _CPU_GRACE_S),
        ("RLIMIT_NOFILE", limits.open_files, 0),
        ("RLIMIT_NPROC", limits.processes, 0),
        ("RLIMIT_FSIZE", None if limits.file_mb is None else limits.file_mb * _MIB, 0),
    ]
    return [{"name": name, "soft": soft, "hard": soft + more} for name, soft, more in found if soft is not None]


def _step_end(command: StepCommand, child: ShimChild, ended_by: OutcomeKind, duration_ms: int) -> StepEnd:
    end, fault = child.end, child.fault
    if fault is not None:
        return StepEnd(outcome=never_started(fault, command.argv[0], command.cwd), duration_ms=duration_ms)
    process = started_as(child.pid, child.start) if child.pid else None
    if end is None:
        detail = "the process that watched over it was killed"
        return StepEnd(
            outcome=Outcome(kind=OutcomeKind.INTERRUPTED, detail=detail), duration_ms=duration_ms, process=process
        )
    errors = StderrTail()
    errors.add(end["tail"].encode("latin-1"))
    return StepEnd(
        outcome=outcome_of(end["status"], ended_by if end["asked"] else None),
        duration_ms=duration_ms,
        process=process,
        stdout_bytes=end["sizes"][0],
        stderr_bytes=end["sizes"][1],
        tail=redact(errors.text(), secrets_in(command.environment)),
        left=end["left"],
        stuck=end["stuck"],
        output_fault=end["output_fault"],
    )
