"""`lifebus jobs`: the jobs of the queue."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say
from lifebus_contract.jobs import JobId, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifebus_contract.jobs import Job
    from lifebus_transports.messages.jobs import JobSummary

app = App(name="jobs")

_Id = Annotated[str, Parameter(help="The id of the job.")]

_LONGEST_WAIT_S = 30.0
_COLORS: "Mapping[str, str]" = {
    JobState.QUEUED: "dim",
    JobState.RUNNING: "cyan",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.CANCELED: "yellow",
}


@app.default
@app.command(name="list")
def list_jobs(
    *, project: str | None = None, state: JobState | None = None, connection: ConnectionOptions = DEFAULT_CONNECTION
) -> ExitCode:
    """List the jobs in the order in which they were queued.

    Args:
        project: Only those of this project.
        state: Only those in this state: `queued`, `running`, `completed`, `failed` or `canceled`.
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.jobs.list(project_id=project, state=state))
    if connection.json:
        put_json(found)
    elif found:
        titles = ("job", "project", "type", "state", "attempts", "queued", "error")
        put_table(titles, [_row(job) for job in found], color_of=_COLORS)
    else:
        say("no jobs")
    return ExitCode.OK


@app.command
def show(job_id: _Id, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show a job: its state, its payload and its result.

    Args:
        job_id: The id of the job.
        connection: Where the broker is, and the form of the answer.
    """
    job_id = _usable(job_id)
    put_json(on_bus(connection, lambda bus: bus.jobs.show(job_id)))
    return ExitCode.OK


@app.command
def cancel(
    job_id: _Id, /, *, reason: str = "api_cancel", connection: ConnectionOptions = DEFAULT_CONNECTION
) -> ExitCode:
    """Cancel a job; a running one is asked to end, and ended by force after its grace.

    Args:
        job_id: The id of the job.
        reason: What is recorded for a waiting job; for a running one it is `cancel_requested`.
        connection: Where the broker is, and the form of the answer.
    """
    job_id = _usable(job_id)
    return _said(on_bus(connection, lambda bus: bus.jobs.cancel(job_id, reason=reason)), connection)


@app.command
def retry(job_id: _Id, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Queue a failed or canceled job again.

    Args:
        job_id: The id of the job.
        connection: Where the broker is, and the form of the answer.
    """
    job_id = _usable(job_id)
    return _said(on_bus(connection, lambda bus: bus.jobs.retry(job_id)), connection)


@app.command
def drain(
    *,
    wait: float = 0.0,
    cancel: Annotated[bool, Parameter(negative=())] = False,
    resume: Annotated[bool, Parameter(negative=())] = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Let no further job begin until `--resume` or the next start of the broker.

    Args:
        wait: How many seconds to wait for running jobs, at most 30.
        cancel: Ask running jobs to end; they are queued again.
        resume: Let jobs begin again.
        connection: Where the broker is, and the form of the answer.
    """
    if not 0 <= wait <= _LONGEST_WAIT_S:
        raise UsageError("--wait: 0 to 30 seconds")
    if resume and (cancel or wait):
        raise UsageError("--resume: without --cancel and --wait")
    status = on_bus(connection, lambda bus: bus.jobs.go_on() if resume else bus.jobs.drain(cancel=cancel, wait_s=wait))
    if connection.json:
        put_json(status)
    else:
        how = "no further job begins" if status.drains else "jobs begin"
        put(f"{how}; {status.running} run, {status.queued} wait")
    return ExitCode.OK


def _usable(job_id: str) -> str:
    """Return the text if it may be the id of a job.

    Raises:
        UsageError: it cannot be one; the text says what an id looks like.
    """
    import msgspec  # noqa: PLC0415

    try:
        return msgspec.convert(job_id, JobId)
    except msgspec.ValidationError:
        form = "up to 128 letters, digits and `_`, `.`, `:`, `-`, beginning with a letter or a digit"
        raise UsageError(f"`{clean(job_id[:64])}` is no id of a job: {form}; `lifebus jobs list` shows them") from None


def _said(job: "Job", connection: ConnectionOptions) -> ExitCode:
    if connection.json:
        put_json(job)
    elif job.state is JobState.RUNNING:
        put(f"`{clean(job.id)}` is asked to end")
    else:
        put(f"`{clean(job.id)}` is {paint(job.state.value, _COLORS[job.state])}")
    return ExitCode.OK


def _row(job: "JobSummary") -> tuple[str, ...]:
    return (
        job.id,
        job.project_id,
        job.type,
        job.state.value,
        f"{job.attempts}/{job.max_attempts}",
        job.created_at,
        job.error or "",
    )
