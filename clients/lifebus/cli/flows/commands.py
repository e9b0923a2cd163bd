"""`lifebus flow`: its commands, and those that look at runs and steer them."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.flows.check import check
from lifebus.cli.flows.common import COLORS, find_run, person
from lifebus.cli.flows.logs import logs
from lifebus.cli.flows.questions import open_questions, put_question
from lifebus.cli.flows.run import resume, run
from lifebus.cli.flows.run_printer import next_steps
from lifebus.cli.terminal import clean, paint, put, put_table, put_whole_json, say, time_text
from lifebus.flows.durations import duration_text
from lifebus.flows.progress import end_text, status_text, try_text
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.flows import FlowDefinition, StepDefinition
    from lifebus_contract.questions import QuestionInfo
    from lifebus_contract.runs import ContextSignals
    from lifebus_transports.messages.flows import FlowStanding, RunSummary

app = App(name="flow")
app.command(run)
app.command(resume)
app.command(check)
app.command(logs)

Run = Annotated[str | None, Parameter(name="RUN")]
"""The run that is meant."""


@app.command(name="list")
def list_runs(*, status: str | None = None, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """List the runs, the newest first.

    Args:
        status: Only those with this status: running, waiting, interrupted, completed, failed, aborted.
        connection: Where the broker is, and the form of the answer.
    """
    wanted = None if status is None else parse_choice("--status", status, [one.value for one in RunStatus])
    found = on_bus(connection, lambda bus: bus.flows.list(wanted))
    if connection.json:
        put_whole_json(found)
    elif found:
        titles = ("run", "status", "phases", "now", "began", "took")
        put_table(titles, [_row(one) for one in found], color_of=COLORS)
    else:
        say("no runs")
    return ExitCode.OK


def _row(one: "RunSummary") -> tuple[str, ...]:
    now = ", ".join(f"{step} {status.value.replace('_', ' ')}" for step, status in one.current)
    took = "-" if one.ended_at_ms is None else duration_text(one.ended_at_ms - one.started_at_ms)
    began = time_text(one.started_at_ms)
    return one.run_id, one.status.value, f"{one.steps_over}/{one.steps}", now or one.reason or "-", began, took


@app.command
def show(name: Run = None, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show a run: what runs, what was tried, who has to answer, and how.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow; default: the newest run.
        connection: Where the broker is, and the form of the answer.
    """

    async def ask(bus: "Bus") -> "tuple[FlowStanding, list[QuestionInfo]]":
        found = await bus.flows.show(await find_run(bus, name))
        return found, await open_questions(bus, found.run)

    found, questions = on_bus(connection, ask)
    if connection.json:
        put_whole_json({"run": found.run, "definition": found.definition, "questions": questions})
    else:
        _put_run(found.run, found.definition, questions)
    return ExitCode.OK


def _put_run(found: RunInfo, flow: "FlowDefinition", questions: "list[QuestionInfo]") -> None:
    facts = {
        "run": found.run_id,
        "status": status_text(found),
        "root": found.root,
        "owner": found.owner,
        "began": time_text(found.started_at_ms),
        "interruptions": str(found.interruptions) if found.interruptions else "",
        "tokens": f"{found.tokens:,}" if found.tokens else "",
        "cost": _cost_text(found),
    }
    for key, fact in facts.items():
        if fact:
            color = COLORS.get(found.status.value, "") if key == "status" else ""
            put(f"{paint(key.ljust(13), 'dim')} {paint(clean(fact), color)}")
    definitions = {one.step_id: one for one in flow.steps}
    put("")
    put_table(
        ("phase", "status", "tries", "took", "newest try"),
        [_step_row(one, definitions.get(one.step_id)) for one in found.steps],
        color_of=COLORS,
    )
    for info in questions:
        put_question(info)
    for line in next_steps(found):
        say(line, color="dim")


def _step_row(step: StepInfo, definition: "StepDefinition | None") -> tuple[str, ...]:
    newest = step.tries[-1] if step.tries else None
    status = step.status.value.replace("_", " ")
    if newest is None:
        return step.step_id, status, "-", "-", "-"
    ended = [max(0, one.ended_at_ms - one.started_at_ms) for one in step.tries if one.ended_at_ms is not None]
    took = duration_text(sum(ended)) if ended else "-"
    last = try_text(newest, definition) if newest.outcome is None else end_text(step, newest, definition)
    return step.step_id, status, str(newest.number), took, last


def _cost_text(found: RunInfo) -> str:
    if not found.cost_micros and not found.unpriced_calls:
        return ""
    calls = "1 call" if found.unpriced_calls == 1 else f"{found.unpriced_calls} calls"
    unpriced = f", and {calls} without a price" if found.unpriced_calls else ""
    return f"${found.cost_micros / 1_000_000:.4f}{unpriced}"


@app.command
def abort(
    name: Annotated[str, Parameter(name="RUN")],
    /,
    *,
    reason: str = "",
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """End a run: end what runs, and withdraw open questions.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow.
        reason: Why; it is recorded.
        connection: Where the broker is, and the form of the answer.
    """

    async def end(bus: "Bus") -> RunInfo:
        return await bus.flows.abort(await find_run(bus, name), reason, by=person())

    return _said(on_bus(connection, end), "is being aborted", connection)


@app.command
def retry(
    name: Annotated[str, Parameter(name="RUN")],
    phase: str,
    /,
    *,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Try a phase again, with a fresh series of tries; this also answers an open question about it.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow.
        phase: The phase.
        connection: Where the broker is, and the form of the answer.
    """

    async def again(bus: "Bus") -> RunInfo:
        return await bus.flows.retry(await find_run(bus, name), phase, by=person())

    return _said(on_bus(connection, again), f"tries {phase} again", connection)


def _said(found: RunInfo, what: str, connection: ConnectionOptions) -> ExitCode:
    if connection.json:
        put_whole_json(found)
    else:
        say(f"{found.run_id} {what}; `lifebus flow show {found.run_id}` shows how it stands")
    return ExitCode.OK


@app.command
def signals(
    name: Run = None, phase: str | None = None, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION
) -> ExitCode:
    """Print what is left for a phase, as JSON: tokens, time, tries, and whether a limit is near.

    Args:
        name: The run: its id, the beginning of that, or the name of its flow; default: the newest run.
        phase: The phase; default: the one that runs, or else the one that comes next.
        connection: Where the broker is.
    """

    async def ask(bus: "Bus") -> "ContextSignals":
        return await bus.flows.signals(await find_run(bus, name), phase)

    put_whole_json(on_bus(connection, ask))
    return ExitCode.OK
