"""The bodies of the verbs of flows and their runs (docs/flows.md, "Verbs")."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from lifebus_contract.fields import Count, Detail, Document, Identifier, refuse_unprintable
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.runs import CostRecord, LogEvent, RunInfo, RunStatus, StepStatus
from lifebus_transports.messages.common import MAX_COMPACTION_MS

MAX_WAIT_MS = 30_000
"""Longest that one `flow_wait` waits."""

MAX_OUTPUT_BYTES = 65_536
"""Most of a try's output in one answer."""

MAX_RUNS = 256
"""Most runs in one answer."""

COMPACTION_MS = 300_000
"""How long a compaction may take where the caller says nothing else."""

MAX_INSTRUCTIONS = 2_048
"""Most letters of what a harness is told about a compaction."""

MAX_EVENTS = 16
"""Most events of a run's log in one answer: each may have 8 KiB."""

_RunId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$(?!\n)")]
"""The id of a run: it names files, too."""


class _OfRun(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What names a run."""

    run_id: _RunId


class _ByPerson(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """What names a run, and who asks for something to be done with it."""

    by: Identifier

    def __post_init__(self) -> None:
        if not self.by.isprintable():
            refuse_unprintable(self)


class FlowSubmit(_ByPerson, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_submit`: begin a run of a flow; the same id with the same flow is the same run.

    `owner` is a client that will claim and run it; without one the broker runs it.
    """

    definition: FlowDefinition
    owner: Identifier | None = None


class FlowListing(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_list`: the runs, the newest first; those that began before the run `before`, those of one status."""

    status: RunStatus | None = None
    before: _RunId | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_RUNS)] = MAX_RUNS


class RunSummary(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A run in a list: how many of its steps are over, and which ones are not pending and not over, at most eight."""

    run_id: Identifier
    name: Identifier
    root: str
    owner: Identifier
    status: RunStatus
    started_at_ms: Count
    ended_at_ms: Count | None = None
    steps: Count
    steps_over: Count
    current: tuple[tuple[Identifier, StepStatus], ...] = ()
    questions: tuple[Identifier, ...] = ()
    interruptions: Count = 0
    reason: Detail = ""


class FlowPage(Document, frozen=True, kw_only=True):
    """The answer to `flow_list`; `complete` says that there are no more."""

    runs: tuple[RunSummary, ...]
    complete: bool


class FlowShow(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_show`: how a run stands, and what is run."""


class FlowStanding(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `flow_show`."""

    run: RunInfo
    definition: FlowDefinition


class FlowWait(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_wait`: how a run stands once it has more than `after_number` records, or after `wait_ms`.

    It has only the newest try of each step.
    """

    after_number: Count = 0
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] = 0


class FlowResume(_ByPerson, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_resume`: have the broker go on with a run whose owner is gone."""


class FlowAbort(_ByPerson, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_abort`: end a run."""

    reason: Detail = ""


class FlowRetry(_ByPerson, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_retry`: have a step tried again with a fresh series."""

    step_id: Identifier


class FlowSignalsQuery(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_signals`: what is left for a step; without one, for the step that runs, else for the one that is next."""

    step_id: Identifier | None = None


class FlowLogs(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_logs`: a piece of what a try wrote, from byte `offset` on; without `number`, of the step's newest try."""

    step_id: Identifier
    number: Annotated[int, Meta(ge=1)] | None = None
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: Count = 0


class FlowOutput(Document, frozen=True, kw_only=True):
    """The answer to `flow_logs`: the text, where it ends in the file, how large that is, and whether more may come.

    Bytes that are no UTF-8 are replaced.
    """

    number: int
    text: str
    next: Count
    size: Count
    running: bool


class FlowLog(Document, frozen=True, kw_only=True):
    """`flow_log`: keep a structured log event of a run."""

    event: LogEvent


class FlowCost(Document, frozen=True, kw_only=True):
    """`flow_cost`: count what calls to a model cost; the same key counts once."""

    record: CostRecord


class FlowCosts(_OfRun, frozen=True, kw_only=True):
    """`flow_costs`: what a run has cost so far, in all and by step."""


class FlowCompact(_OfRun, frozen=True, kw_only=True):
    """`flow_compact`: have the harness of a step make the context of its session smaller, now that no try of it runs.

    `instructions` say what the harness is to keep.  It is ended when it takes longer than `time_limit_ms`.
    """

    step_id: Identifier
    instructions: Annotated[str, Meta(max_length=MAX_INSTRUCTIONS)] = ""
    time_limit_ms: Annotated[int, Meta(ge=1, le=MAX_COMPACTION_MS)] = COMPACTION_MS

    def __post_init__(self) -> None:
        if self.instructions and not self.instructions.isprintable():
            refuse_unprintable(self)


class FlowEvents(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_events`: the log of a run from its event `after` on, counted from 0."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = MAX_EVENTS


class FlowEventPage(Document, frozen=True, kw_only=True):
    """The answer to `flow_events`, in the order of the run; `complete` says that there are no more by now."""

    events: tuple[LogEvent, ...]
    complete: bool


class FlowClaim(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_claim`: be the client that runs it; answered with the records that are there."""

    owner: Identifier


class FlowRecord(_OfRun, frozen=True, kw_only=True, omit_defaults=True):
    """`flow_record`: what happened in a run that the client runs, behind record `after_number`.

    Without records it reads what others recorded.
    """

    owner: Identifier
    after_number: Count
    records: Annotated[tuple[dict[str, Any], ...], Meta(max_length=1_024)] = ()


class FlowProgress(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `flow_claim` and `flow_record`: the newest number, and records behind `after_number`, in order.

    `appended` is false if others had recorded something meanwhile; then nothing was written.  If there are fewer
    records here than the number says, ask for those after the last one.
    """

    number: Count
    appended: bool
    records: tuple[dict[str, Any], ...] = ()
