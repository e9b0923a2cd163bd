"""`lifebus flow logs`: what the tries of a phase wrote."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.flows.common import find_run
from lifebus.cli.terminal import clean, put_whole_json, say

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus.loa.types import LoaEvent
    from lifebus_contract.runs import RunInfo
    from lifebus_transports.messages.flows import FlowOutput

_LOOK_S: Final = 0.3


def logs(
    name: Annotated[str | None, Parameter(name="RUN")] = None,
    phase: str | None = None,
    /,
    *,
    number: Annotated[int | None, Parameter(name="--try")] = None,
    stderr: bool = False,
    events: bool = False,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Print what a try wrote, or the log of events of a run; exit code 65 if nothing of it is kept.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow; default: the newest run.
        phase: The phase; default: the one that runs, or else the one that was tried last.
        number: Which try, counted from 1; default: the newest.
        stderr: What it wrote to stderr, in place of stdout.
        events: Print the events of the run, or of the phase, in order and under standard names, in place of the
            output.
        follow: Go on until the try has ended.
        connection: Where the broker is, and the form of the answer.
    """
    if events:
        if number is not None or stderr or follow:
            raise UsageError("--events shows what happened: --try, --stderr and --follow are about what was written")
        from lifebus.cli.flows.events import put_events  # noqa: PLC0415

        put_events(on_bus(connection, lambda bus: _events(bus, name, phase)), json=connection.json)
        return ExitCode.OK
    stream: Literal["stdout", "stderr"] = "stderr" if stderr else "stdout"

    async def show(bus: "Bus") -> None:
        run_id = await find_run(bus, name)
        step = phase or _newest_step((await bus.flows.show(run_id)).run)
        offset, wanted = 0, number
        while True:
            piece = await bus.flows.logs(run_id, step, number=wanted, stream=stream, offset=offset)
            _put(piece, step, stream, json=connection.json)
            # The newest try of the beginning stays the one that is read.
            offset, wanted = piece.next, piece.number
            if offset < piece.size:
                continue
            if not (follow and piece.running):
                return
            # Another process writes the file, which raises no event over the socket.
            await asyncio.sleep(_LOOK_S)

    on_bus(connection, show)
    return ExitCode.OK


async def _events(bus: "Bus", name: str | None, phase: str | None) -> "tuple[LoaEvent, ...]":
    from lifebus.cli.flows.events import read_events  # noqa: PLC0415

    run = (await bus.flows.show(await find_run(bus, name))).run
    return await read_events(bus, run, phase)


def _newest_step(run: "RunInfo") -> str:
    """Return the phase that runs, else the one that was tried last.

    Raises:
        UsageError: nothing was tried yet.
    """
    tried = [one for one in run.steps if one.tries]
    if not tried:
        raise UsageError("nothing was tried yet")
    running = [one for one in tried if one.tries[-1].ended_at_ms is None]
    return (running[0] if running else max(tried, key=lambda one: one.tries[-1].started_at_ms)).step_id


def _put(piece: "FlowOutput", step: str, stream: str, *, json: bool) -> None:
    if json:
        put_whole_json({"step": step, "stream": stream, **_fields(piece)}, indent=0)
        return
    if not piece.text:
        if not piece.size and not piece.running:
            say(f"{step}, try {piece.number}: nothing on {stream}", color="dim")
        return
    # A terminal must not be steered by what a program wrote; a file or pipe gets it as it was.
    text = "\n".join(clean(line) for line in piece.text.split("\n")) if sys.stdout.isatty() else piece.text
    sys.stdout.write(text)
    sys.stdout.flush()


def _fields(piece: "FlowOutput") -> dict[str, object]:
    return {"try": piece.number, "text": piece.text, "next": piece.next, "size": piece.size, "running": piece.running}
