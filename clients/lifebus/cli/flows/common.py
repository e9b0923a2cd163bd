"""What the commands of flows share: which run is meant, who asks, how things look."""

import getpass
import shlex
from typing import TYPE_CHECKING, Final

from lifebus.cli.exit_codes import ExitCode, ambiguous
from lifebus_contract import DeadlineExceeded, InvalidRequest, TransportError
from lifebus_contract.runs import RunStatus

if TYPE_CHECKING:
    from pathlib import Path

    from lifebus.client import Bus
    from lifebus_contract.flows import FlowDefinition
    from lifebus_contract.runs import RunInfo

COLORS: Final = {
    "running": "cyan",
    "backing off": "yellow",
    "asking": "yellow",
    "waiting": "yellow",
    "interrupted": "yellow",
    "done": "green",
    "completed": "green",
    "failed": "red",
    "aborted": "red",
    "skipped": "dim",
    "pending": "dim",
}
"""The colour of each word for how something stands."""

_EXITS: Final = {
    RunStatus.COMPLETED: ExitCode.OK,
    RunStatus.FAILED: ExitCode.NEGATIVE,
    RunStatus.ABORTED: ExitCode.RUN_ABORTED,
    RunStatus.WAITING: ExitCode.PERSON_ASKED,
    RunStatus.INTERRUPTED: ExitCode.RUN_INTERRUPTED,
}


def exit_of(run: "RunInfo") -> ExitCode:
    """Return the exit code that says how a run ended, or why it is not waited for any longer."""
    return _EXITS.get(run.status, ExitCode.OK)


async def find_run(bus: "Bus", word: str | None) -> str:
    """Return the id of the run that is meant: an id, its beginning, the name of a flow, or the newest without a word.

    Of several runs of a flow the newest is meant.

    Raises:
        InvalidRequest: there is none (`no_run`).
        UsageError: the beginning is that of several.
    """
    runs = await bus.flows.list()
    if word is None:
        if not runs:
            raise InvalidRequest("there are no runs yet; `lifebus flow run FILE` begins one", code="no_run")
        return runs[0].run_id
    exact = [one.run_id for one in runs if one.run_id == word] or [one.run_id for one in runs if one.name == word]
    if exact:
        return exact[0]
    near = [one.run_id for one in runs if one.run_id.startswith(word)]
    if len(near) == 1:
        return near[0]
    if near:
        raise ambiguous(word, "runs", near)
    raise InvalidRequest(f"there is no run `{word[:64]}`", code="no_run")


async def submitted(bus: "Bus", flow: "FlowDefinition", name: str, file: "Path", owner: str | None = None) -> "RunInfo":
    """Begin a run under an id of ours.

    Raises:
        LifebusError: it was refused, or nobody knows whether it has begun; then the text says what to do.
    """
    try:
        return await bus.flows.submit(flow, run_id=name, owner=owner, by=person())
    except (TransportError, DeadlineExceeded) as fault:
        words = ["lifebus", "flow", "run", str(file), "--id", name, *(("--here",) if owner else ())]
        again = f"whether the run has begun is unknown; `{shlex.join(words)}` is the same run, however often it is said"
        raise type(fault)(f"{fault.detail}\n{again}", code=fault.code) from None


def person() -> str:
    """Return who asks, as far as the system says it."""
    try:
        return getpass.getuser() or "somebody"
    except (KeyError, OSError):  # a user without an entry, in a container
        return "somebody"
