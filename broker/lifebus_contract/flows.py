"""Flows: steps that run under rules given as data, and how a run of them stands; wire types (docs/flows.md).

Nothing here knows what a step is for: codes, retries and questions are data that a client gives.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from lifebus_contract.fields import (
    Detail,
    Document,
    Identifier,
    Label,
    Metadata,
    refuse_unprintable,
)
from lifebus_contract.questions import Modifiable

MAX_STEPS: Final = 256
"""Most steps of one flow."""

FLOW_VARIABLES: Final = "LIFEBUS_FLOW_"
"""What the variables begin with that tell a try about itself; ``RUN`` has the run's id."""

Code = Annotated[int, Meta(ge=0, le=255)]
"""An exit code."""

Path = Annotated[str, Meta(min_length=1, max_length=4_096)]
"""A path; relative ones stand below the root of the run."""

Words = Annotated[tuple[str, ...], Meta(min_length=1, max_length=1_024)]
"""A program and its arguments; no shell reads them."""


class StepVerdict(StrEnum):
    """What follows from the end of a try."""

    PROCEED = "proceed"
    RETRY = "retry"
    """Try again while tries are left, then ask a person."""
    ESCALATE = "escalate"
    """Ask a person at once."""
    ALERT = "alert"
    """Ask a person to repair what keeps it from starting."""


class OutcomeKind(StrEnum):
    """How a try ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    """A signal ended it that was not ours; a code of 128+n counts as one (the raw code stays in `code`)."""
    TIMED_OUT = "timed_out"
    """Its own time limit was over."""
    CANNOT_START = "cannot_start"
    INTERRUPTED = "interrupted"
    """Whoever ran it ended in the middle: what it did is unknown, and it runs again."""
    ABORTED = "aborted"
    """The run was aborted."""
    UNVERIFIED = "unverified"
    """It ended well, and an artifact that it was to leave is missing."""


class Outcome(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How a try ended, as it was seen: the raw exit code, or the signal; `detail` is for people."""

    kind: OutcomeKind
    code: Code | None = None
    signal: Annotated[int, Meta(ge=1, le=128)] | None = None
    detail: Detail = ""


class CodeRule(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What the exit codes `first` to `last` mean; `label` is their name, such as ``EX_IOERR``."""

    first: Code
    last: Code
    verdict: StepVerdict
    label: Label | None = None

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError(f"last: {self.last} lies before {self.first}")


class CodeMap(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What the end of a try means.  The first rule that fits decides; a step's map goes before the flow's."""

    rules: Annotated[tuple[CodeRule, ...], Meta(max_length=256)] = ()
    unknown: StepVerdict = StepVerdict.ESCALATE
    """For codes that no rule names; it comes with a warning."""
    signalled: StepVerdict = StepVerdict.RETRY
    timed_out: StepVerdict = StepVerdict.RETRY
    cannot_start: StepVerdict = StepVerdict.ALERT
    unverified: StepVerdict = StepVerdict.RETRY


class RetryPause(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The pause before a retry: `first_ms`, doubling up to `longest_ms`, with up to `jitter_percent` more."""

    first_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 1_000
    longest_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 30_000
    jitter_percent: Annotated[int, Meta(ge=0, le=100)] = 25


class ProcessLimits(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a step's processes, by the system (setrlimit), and of what is kept of their output."""

    memory_mb: Annotated[int, Meta(ge=16)] | None = None
    cpu_s: Annotated[int, Meta(ge=1)] | None = None
    open_files: Annotated[int, Meta(ge=16)] | None = None
    processes: Annotated[int, Meta(ge=1)] | None = None
    file_mb: Annotated[int, Meta(ge=1)] | None = None
    output_kb: Annotated[int, Meta(ge=1, le=1_048_576)] = 1_024
    """KiB that are kept of stdout, and of stderr: the beginning, and the end as much; the rest is counted."""


class HarnessPrompt(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt to a harness in its one-shot mode; `arguments` go to its program as they are."""

    adapter_id: Identifier
    text: Annotated[str, Meta(min_length=1, max_length=65_536)]
    model: Identifier | None = None
    arguments: Annotated[tuple[str, ...], Meta(max_length=256)] = ()


class OnFailure(StrEnum):
    """What follows when a step has failed for good, in place of the verdict to ask somebody."""

    ESCALATE = "escalate"
    """Ask a person."""
    ABORT = "abort"
    """End the run as failed."""
    SKIP = "skip"
    """Go on without it."""


class StepDefinition(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One step: what is run, when, and what its end means.

    It has either `command` or `prompt`.  `passing` names variables that are passed on (a star stands for any ending),
    and `setting` has variables that are set.  `approval` is what a person is asked before the first try; `question` is
    what a person is asked when the step cannot go on.  `artifacts` are files that must exist when it has ended well.
    """

    step_id: Identifier
    needs: Annotated[tuple[Identifier, ...], Meta(max_length=MAX_STEPS)] = ()
    command: Words | None = None
    prompt: HarnessPrompt | None = None
    cwd: Path = "."
    passing: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    setting: Annotated[dict[str, str], Meta(max_length=256)] = {}  # noqa: RUF012  msgspec makes a new one each time
    time_limit_ms: Annotated[int, Meta(ge=1)] | None = None
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 5_000
    max_retries: Annotated[int, Meta(ge=0, le=1_000)] = 3
    """Retries after the first try."""
    pause: RetryPause = RetryPause()
    codes: CodeMap | None = None
    limits: ProcessLimits = ProcessLimits()
    artifacts: Annotated[tuple[Path, ...], Meta(max_length=256)] = ()
    on_failure: OnFailure = OnFailure.ESCALATE
    approval: Detail | None = None
    question: Detail | None = None
    suggested_actions: Annotated[tuple[Detail, ...], Meta(max_length=16)] = ()
    modifiable: Annotated[tuple[Modifiable, ...], Meta(max_length=64)] = ()
    metadata: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if not self.step_id.isprintable():
            refuse_unprintable(self)
        if (self.command is None) is (self.prompt is None):
            raise ValueError("command: a step has either `command` or `prompt`")


class Budget(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a run may use; a person is asked before more is used.  Money is in millionths of a US dollar."""

    time_ms: Annotated[int, Meta(ge=1)] | None = None
    tokens: Annotated[int, Meta(ge=1)] | None = None
    cost_micros: Annotated[int, Meta(ge=1)] | None = None


class FlowDefinition(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A flow as it is run: complete, checked, free of any file.  `root` is the absolute path of the project.

    `client_id` is the client whose rules these are.  Steps whose needs are done run beside one another, at most
    `max_parallel`, in the order in which they are listed.
    """

    name: Identifier
    client_id: Identifier
    root: Path
    steps: Annotated[tuple[StepDefinition, ...], Meta(min_length=1, max_length=MAX_STEPS)]
    codes: CodeMap = CodeMap()
    max_parallel: Annotated[int, Meta(ge=1, le=64)] = 1
    budget: Budget = Budget()
    near_limit_percent: Annotated[int, Meta(ge=1, le=100)] = 80
    """From which share of a limit on, itself included, a run counts as near it."""
    context_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Tokens that a step's context may have, where its telemetry says nothing better."""
    metadata: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if not f"{self.name}{self.client_id}{self.root}".isprintable():
            refuse_unprintable(self)
        _check_steps(self.steps)


def _check_steps(steps: tuple[StepDefinition, ...]) -> None:
    """Refuse steps that can never all run.

    Raises:
        ValueError: a name stands twice, something needed is not there, or steps need one another in a circle.
    """
    names = [one.step_id for one in steps]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"steps: `{twice[0][:64]}` stands there twice")
    left = {one.step_id: set(one.needs) for one in steps}
    for name, needs in left.items():
        if missing := sorted(needs - left.keys()):
            raise ValueError(f"steps: `{name[:64]}` needs `{missing[0][:64]}`, which is no step")
    while left:
        free = [name for name, needs in left.items() if not needs & left.keys()]
        if not free:
            raise ValueError(f"steps: {', '.join(f'`{name[:64]}`' for name in sorted(left))} need one another")
        for name in free:
            del left[name]
