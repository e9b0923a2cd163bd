"""`lifebus checkpoint`: checkpoints of a project, saved, found, compared with its files, exported."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice
from lifebus.cli.choices import OneSession
from lifebus.cli.connection import on_bus
from lifebus.cli.documents import DocumentPath, naming_document, read_document
from lifebus.cli.errors import refusal_lines
from lifebus.cli.exit_codes import ExitCode, NotThere
from lifebus.cli.session_names import resolve_session
from lifebus.cli.terminal import clean, put, put_bytes, put_table, put_whole_json, say
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus.checkpoints.kinds import CheckpointKind
    from lifebus.checkpoints.project import ProjectCheckpoints
    from lifebus.checkpoints.records import Checkpoint, CheckpointInfo

app = App(name="checkpoint")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProjectOptions:
    """Whose checkpoints."""

    root: Annotated[Path, Parameter(env_var="LIFEBUS_FLOW_ROOT")] = Path()
    "The root of the project; the default is this directory, in a phase of a flow that of its run."
    kind: str = "loa.checkpoint"
    "The kind of checkpoint; the default is loa.checkpoint."

    def opened(self) -> "ProjectCheckpoints":
        """Return the checkpoints of the project."""
        from lifebus.checkpoints.project import ProjectCheckpoints  # noqa: PLC0415

        return ProjectCheckpoints(self.found_kind, self.root)

    @property
    def found_kind(self) -> "CheckpointKind":
        """The kind that is meant."""
        from lifebus.checkpoints.known_kinds import KIND_NAMES, find_kind  # noqa: PLC0415

        return find_kind(parse_choice("--kind", self.kind, list(KIND_NAMES)))


_HERE: Final = ProjectOptions()


@app.command
def save(
    file: DocumentPath = None,
    /,
    *,
    session: OneSession = None,
    project: ProjectOptions = _HERE,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Save a checkpoint, and print its id once it is durable; the broker records its digest.

    Its files must be as it says. A document that is saved again is the same checkpoint. Without a broker it is saved
    all the same, and recorded together with the next one.

    Args:
        file: The checkpoint in JSON; without one, or with `-`, it is read from stdin.
        session: The session that its receipt belongs to, e.g. api#3; in a phase of a flow that of its run.
        project: Whose checkpoint it is.
        connection: Where the broker is, and the form of the answer.
    """
    body = read_document(file)
    with project.opened() as checkpoints, naming_document(file):
        info, is_new = checkpoints.save(body, session=_session(session, connection))
    fault = _record(info, project, connection)
    if connection.json:
        put_whole_json(
            {"checkpoint": info, "is_new": is_new, "recorded": fault is None, "why_not": fault and fault.detail}
        )
    else:
        put(info.checkpoint_id)
        if fault is not None:
            say(f"saved, and not on record yet: {refusal_lines(fault)[0]}", color="yellow")
    return ExitCode.OK


@app.command
def show(
    which: str,
    /,
    *,
    run: str | None = None,
    verify: bool = False,
    project: ProjectOptions = _HERE,
    json: bool = False,
) -> ExitCode:
    """Print a checkpoint as it was saved; exit code 1, and nothing on stdout, if there is none.

    Args:
        which: Its id, or the name (the phase) whose newest one is wanted.
        run: Only of this execution.
        verify: Compare its files with those that are there, name the differences, and exit with 1 if there are any.
        project: Whose checkpoint it is.
        json: Print what is known of it and the differences beside it.
    """
    with project.opened() as checkpoints:
        found = checkpoints.get(which, run_id=run)
        differences = checkpoints.verify(found) if found is not None and verify else ()
    if json:
        _put_whole(found, {"differences": differences} if verify else {})
    elif found is None:
        raise _absent(which, run)
    else:
        put_bytes(found.body)
        for one in differences:
            say(f"{one.kind.value}: {one.detail}", color="yellow")
    return ExitCode.NEGATIVE if found is None or differences else ExitCode.OK


@app.command(name="list")
def list_checkpoints(
    name: str | None = None,
    /,
    *,
    last: Annotated[int | None, Parameter(name=("--last", "-n"))] = None,
    project: ProjectOptions = _HERE,
    json: bool = False,
) -> ExitCode:
    """List the checkpoints of a project, the oldest first. Exit code 1 if one of them is damaged.

    Args:
        name: Only those of this name (phase).
        last: Only this many, the newest.
        project: Whose checkpoints.
        json: Answer in JSON.
    """
    with project.opened() as checkpoints:
        infos, broken = checkpoints.list(name=name, last=last)
    if json:
        put_whole_json({"checkpoints": infos, "damaged": broken})
    elif infos:
        put_table(("checkpoint", "name", "run", "created", "bytes"), [_row(one) for one in infos])
    else:
        say("there is no checkpoint")
    for one in broken:
        say(f"{one} is damaged", color="red")
    return ExitCode.NEGATIVE if broken else ExitCode.OK


@app.command
def export(which: str | None = None, /, *, project: ProjectOptions = _HERE, json: bool = False) -> ExitCode:
    """Write a checkpoint into the project, `.loa-checkpoint/PHASE.yaml` for Loa's, and print the path.

    Args:
        which: Its id, or the name (the phase) whose newest one is meant; without one, the newest of each name.
        project: Whose checkpoint it is.
        json: Answer in JSON.
    """
    with project.opened() as checkpoints:
        names = [which] if which is not None else list(dict.fromkeys(one.name for one in checkpoints.list()[0]))
        found = [checkpoints.get(one) for one in names]
        paths = [checkpoints.export(one) for one in found if one is not None]
    if json:
        put_whole_json({"exported": paths})
    for path in () if json else paths:
        put(clean(path))
    if not paths and not json:
        raise _absent(which, None)
    return ExitCode.OK if paths else ExitCode.NEGATIVE


def _absent(which: str | None, run: str | None) -> NotThere:
    named = "" if which is None else f" `{clean(which)[:64]}`"
    of_run = "" if run is None else f" of the run `{clean(run)[:64]}`"
    return NotThere(
        f"there is no checkpoint{named}{of_run}", "`lifebus checkpoint list` lists them; --root names a project"
    )


def _record(info: "CheckpointInfo", project: ProjectOptions, connection: ConnectionOptions) -> LifebusError | None:
    """Have the broker record what is not on record yet; return why this one is not, None where it is."""
    kind = project.found_kind
    try:
        faults = on_bus(connection, lambda bus: bus.checkpoints.record_waiting(kind=kind, root=project.root))
    except LifebusError as fault:
        return fault
    return faults.get(info.checkpoint_id)


def _session(text: str | None, connection: ConnectionOptions) -> tuple[str, str] | None:
    if text is not None:
        return resolve_session(text, connection)
    from lifebus.checkpoints.receipts import session_of_step  # noqa: PLC0415

    return session_of_step(os.environ)


def _put_whole(found: "Checkpoint | None", more: dict[str, object]) -> None:
    import msgspec  # noqa: PLC0415

    whole = {
        "info": None if found is None else found.info,
        "checkpoint": None if found is None else msgspec.Raw(found.body),
    }
    put_whole_json(whole | more)


def _row(info: "CheckpointInfo") -> tuple[str, ...]:
    return info.checkpoint_id, info.name, info.run_id, info.created_at, str(info.byte_size)
