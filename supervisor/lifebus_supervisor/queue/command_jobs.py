"""Jobs of the type `command`: a program under a shim, whose last line is the result (docs/queue.md, "Commands").

The shim writes beside the output how the program ended, before anybody is told: a broker that was killed finds it
there, and does not repeat what is done.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from lifebus_contract.fields import Metadata
from lifebus_contract.flows import Outcome, OutcomeKind, ProcessLimits
from lifebus_contract.jobs import MAX_RESULT_BYTES, CommandPayload
from lifebus_supervisor.queue.job_info import job_of
from lifebus_supervisor.queue.ports import AttemptTools, JobRunner, JobType
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from lifebus_supervisor.runtime.output_files import file_of
from lifebus_supervisor.runtime.step_outcome import outcome_of
from lifebus_supervisor.runtime.step_process import StepCommand, run_step, wait_for_earlier
from lifebus_transports.processes.spec import CommandSpec, environment_of

COMMAND: Final = "command"
FOLDER: Final = "jobs"
"""Where the output of commands is in the state directory."""

PREFIX: Final = "LIFEBUS_JOB_"
"""What the variables begin with that tell a command about its job."""

_LONGEST_INPUT: Final = 65_536
"""A longer input is in the file alone: the system bounds a variable."""

_FINAL_CODES: Final = frozenset(range(64, 79)) - {75}
"""Exit codes of sysexits.h, without EX_TEMPFAIL: another attempt would end in the same way."""


class RecordedEnd(Struct, frozen=True):
    """How a program ended, as its shim wrote it down: exit code, negative for a signal; whether it was asked to end."""

    status: int
    asked: bool


class CommandJobs:
    """Runs jobs as commands; their files lie below `state_dir`, `environ` is what they may ask to be passed on."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._folder = state_dir / FOLDER
        self._environ = environ

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        """Run the program to its end (`JobRunner.run`)."""
        payload = msgspec.convert(job.payload, CommandPayload)
        output = self._output(job)
        await anyio.to_thread.run_sync(self._prepare, job, output.parent)
        if job.tries > 1:
            await wait_for_earlier(self._output(job, job.tries - 1))
        end = await run_step(self._command(job, payload, output), cancelled=tools.cancelled)
        return await anyio.to_thread.run_sync(end_of, end.outcome, end.tail, file_of(output, "stdout"))

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        """Return how the program ended, once it runs no more (`JobRunner.recover`)."""
        output = self._output(job)
        await wait_for_earlier(output)
        return await anyio.to_thread.run_sync(recovered_end, output)

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove the files of jobs."""

        def remove() -> None:
            for job_id in job_ids:
                shutil.rmtree(self._folder / job_id, ignore_errors=True)

        await anyio.to_thread.run_sync(remove)

    def _output(self, job: JobStanding, number: int | None = None) -> Path:
        return self._folder / job.job_id / str(number or job.tries)

    @staticmethod
    def _prepare(job: JobStanding, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "job.json").write_bytes(msgspec.json.encode(job_of(job)))

    def _command(self, job: JobStanding, payload: CommandPayload, output: Path) -> StepCommand:
        spec = CommandSpec(argv=payload.argv, passing=payload.passing, setting=payload.setting)
        told = {
            "ID": job.job_id,
            "PROJECT": job.project_id,
            "ATTEMPT": str(job.attempts),
            "FILE": str(output.parent / "job.json"),
        }
        given = msgspec.json.encode(payload.input).decode()
        if len(given) <= _LONGEST_INPUT:
            told["INPUT"] = given
        return StepCommand(
            argv=payload.argv,
            cwd=payload.cwd,
            environment={
                **environment_of(spec, self._environ),
                **{f"{PREFIX}{name}": value for name, value in told.items()},
            },
            output=output,
            grace_ms=job.definition.cancel_grace_ms,
            limits=ProcessLimits(memory_mb=payload.memory_mb, cpu_s=payload.cpu_s),
            records_end=True,
        )


def command_type(runner: JobRunner) -> JobType:
    """Return the type of jobs that are commands."""
    return JobType(name=COMMAND, runner=runner, check=_check)


def _check(payload: Metadata) -> str | None:
    try:
        found = msgspec.convert(payload, CommandPayload)
    except msgspec.ValidationError as fault:
        return str(fault)
    if not found.argv[0]:
        return "`argv`: the program is empty"
    if any("\0" in text for text in (*found.argv, found.cwd, *found.setting, *found.setting.values())):
        return "it holds a NUL character"
    return None


def end_of(outcome: Outcome, tail: str, stdout: Path) -> AttemptEnd:
    """Return how an attempt ended, by the end of its program and what it wrote; reads the file."""
    if outcome.kind is OutcomeKind.EXITED and outcome.code == 0:
        return _result_of(stdout)
    said = outcome.detail or f"the program ended with exit code {outcome.code}"
    error = f"{said}: {tail}" if tail else said
    if outcome.kind is OutcomeKind.CANNOT_START:
        # Without a code it is this machine that has no room for it now.
        return AttemptEnd(error=error, retryable=outcome.code is None)
    return AttemptEnd(error=error, retryable=outcome.code not in _FINAL_CODES)


def recovered_end(output: Path) -> AttemptEnd | None:
    """Return how a program ended whose broker was killed, None where it was interrupted; reads files."""
    try:
        found = msgspec.json.decode(output.with_name(f"{output.name}.end").read_bytes(), type=RecordedEnd)
    except (OSError, msgspec.DecodeError):
        return None
    if found.asked:
        # It was in the middle when its broker ended; what it ended with then is its last word only with a result.
        end = _result_of(file_of(output, "stdout")) if found.status == 0 else None
        return end if end is not None and end.error is None and end.result is not None else None
    return end_of(outcome_of(found.status, None), "", file_of(output, "stdout"))


def _result_of(stdout: Path) -> AttemptEnd:
    """Return the result that a program left: its last line, as JSON; nothing where it wrote nothing."""
    try:
        line = _last_line(stdout)
    except OSError as fault:
        return AttemptEnd(error=f"the output cannot be read: {fault.strerror}", retryable=True)
    if line is None:
        return AttemptEnd(error=f"the last line is longer than {MAX_RESULT_BYTES} bytes")
    if not line:
        return AttemptEnd()
    try:
        result: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as fault:
        return AttemptEnd(error=f"the last line of its output is not JSON: {fault}")
    return AttemptEnd(result=result)


def _last_line(path: Path) -> bytes | None:
    """Return the last line that is not blank, without what surrounds it; None where it is too long."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_RESULT_BYTES - 4_096))
        tail = file.read().rstrip()
    line = re.split(rb"[\r\n]", tail)[-1].strip()
    whole = len(line) < len(tail) or size <= MAX_RESULT_BYTES + 4_096
    return line if whole and len(line) <= MAX_RESULT_BYTES else None
