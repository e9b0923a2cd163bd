"""The routes of runs of flows: how they stand, and their end (docs/flows.md)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import Detail, Identifier
from lifebus_contract.flows import Outcome
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, StepStatus
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import OperatorPeer
from lifebus_transports.messages.flows import (
    MAX_RUNS,
    FlowAbort,
    FlowListing,
    FlowPage,
    FlowShow,
    FlowStanding,
    RunSummary,
)

_RunId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$(?!\n)")]


class RunPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a flow."""

    run_id: _RunId


class RunsQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which runs: of one status; `before` is the last run of the page before."""

    status: RunStatus | None = None
    before: _RunId | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_RUNS)] = 64


class RunItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A run in a list: how many steps are over, and which ones are under way; times are in milliseconds since 1970."""

    run_id: str
    name: str
    owner: str
    status: RunStatus
    started_at_ms: int
    ended_at_ms: int | None
    steps: int
    steps_over: int
    current: tuple[tuple[str, StepStatus], ...]
    questions: tuple[str, ...]
    interruptions: int
    reason: str


class RunsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Runs, the newest first; `complete` says that there are no more."""

    status: Literal["ok"] = OK
    data: tuple[RunItem, ...]
    complete: bool


class RunStepItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A step of a run, with its newest try; `tail` is the end of what that wrote to stderr, redacted.

    `session` is the harness session (adapter, id) that the try was seen to have.
    """

    step_id: str
    status: StepStatus
    tries: int
    question_id: str | None
    retry_at_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    outcome: Outcome | None
    tail: str
    session: tuple[str, str] | None


class RunShown(Struct, frozen=True, kw_only=True, rename="camel"):
    """A run with its steps; `costMicros` is in millionths of the currency of the prices."""

    run_id: str
    name: str
    owner: str
    status: RunStatus
    started_at_ms: int
    ended_at_ms: int | None
    interruptions: int
    reason: str
    tokens: int
    cost_micros: int
    steps: tuple[RunStepItem, ...]


class RunAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run stands."""

    status: Literal["ok"] = OK
    run: RunShown


class RunNotFound(Struct, frozen=True, kw_only=True, rename="camel"):
    """There is no such run."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_run"] = "no_run"
    run_id: str
    message: str


class AbortBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Why a run is ended, and who ends it."""

    reason: Detail = ""
    responder: Identifier = "gateway"


OPERATIONS = (
    Operation(
        name="runs",
        method="GET",
        path="/api/flows",
        summary="Lists the runs of flows, the newest first.",
        tag="flows",
        query=RunsQuery,
        answers={200: RunsAnswer, 404: RunNotFound},
    ),
    Operation(
        name="run",
        method="GET",
        path="/api/flows/{runId}",
        summary="Returns how a run of a flow stands.",
        tag="flows",
        place=RunPlace,
        answers={200: RunAnswer, 404: RunNotFound},
    ),
    Operation(
        name="abortRun",
        method="POST",
        path="/api/flows/{runId}/abort",
        summary="Ends a run of a flow.",
        tag="flows",
        place=RunPlace,
        body=AbortBody,
        answers={200: RunAnswer, 404: RunNotFound, 409: ErrorBody},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"runs": _list, "run": _show, "abortRun": _abort}


async def _list(asked: RouteRequest) -> RunsAnswer:
    query: RunsQuery = asked.query
    wanted = FlowListing(status=query.status, before=query.before, limit=query.limit)
    try:
        page: FlowPage = await asked.calls.call(asked.peer, "flow_list", wanted)
    except LifebusError as fault:
        raise _refusal(query.before or "", fault) from None
    return RunsAnswer(data=tuple(map(_item, page.runs)), complete=page.complete)


async def _show(asked: RouteRequest) -> RunAnswer:
    run_id: str = asked.place.run_id
    try:
        found: FlowStanding = await asked.calls.call(asked.peer, "flow_show", FlowShow(run_id=run_id))
    except LifebusError as fault:
        raise _refusal(run_id, fault) from None
    return RunAnswer(run=_shown(found.run))


async def _abort(asked: RouteRequest) -> RunAnswer:
    run_id: str = asked.place.run_id
    body: AbortBody = asked.body
    try:
        wanted = FlowAbort(run_id=run_id, by=body.responder, reason=body.reason)
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the body does not fit", (str(fault)[:512],))) from None
    try:
        # The token is the proof that the caller may do to runs what their owner does.
        info: RunInfo = await asked.calls.call(OperatorPeer(), "flow_abort", wanted)
    except LifebusError as fault:
        raise _refusal(run_id, fault) from None
    return RunAnswer(run=_shown(info))


def _refusal(run_id: str, fault: LifebusError) -> Exception:
    if fault.code != "no_run":
        return fault
    return HttpRefusal(RouteReply(404, RunNotFound(run_id=run_id, message=fault.detail)))


def _item(run: RunSummary) -> RunItem:
    return RunItem(
        run_id=run.run_id,
        name=run.name,
        owner=run.owner,
        status=run.status,
        started_at_ms=run.started_at_ms,
        ended_at_ms=run.ended_at_ms,
        steps=run.steps,
        steps_over=run.steps_over,
        current=run.current,
        questions=run.questions,
        interruptions=run.interruptions,
        reason=run.reason,
    )


def _shown(run: RunInfo) -> RunShown:
    return RunShown(
        run_id=run.run_id,
        name=run.name,
        owner=run.owner,
        status=run.status,
        started_at_ms=run.started_at_ms,
        ended_at_ms=run.ended_at_ms,
        interruptions=run.interruptions,
        reason=run.reason,
        tokens=run.tokens,
        cost_micros=run.cost_micros,
        steps=tuple(map(_step, run.steps)),
    )


def _step(step: StepInfo) -> RunStepItem:
    newest = step.tries[-1] if step.tries else None
    return RunStepItem(
        step_id=step.step_id,
        status=step.status,
        tries=0 if newest is None else newest.number,
        question_id=step.question_id,
        retry_at_ms=step.retry_at_ms,
        started_at_ms=None if newest is None else newest.started_at_ms,
        ended_at_ms=None if newest is None else newest.ended_at_ms,
        outcome=None if newest is None else newest.outcome,
        tail="" if newest is None else newest.tail,
        session=None if newest is None else newest.session,
    )
