"""Runs of flows: how they stand, what was tried, what is left, what it cost; wire types (docs/flows.md)."""

from enum import StrEnum

from lifebus_contract.fields import (
    Count,
    Detail,
    Document,
    Identifier,
    Label,
    Metadata,
    OwnerDigest,
    refuse_unprintable,
)
from lifebus_contract.flows import Outcome, Path, StepVerdict


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    WAITING = "waiting"
    """Nothing runs, and a person is asked."""
    INTERRUPTED = "interrupted"
    """Whoever ran it is gone; `resume` goes on."""
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def is_over(self) -> bool:
        """Whether nothing follows any more."""
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED)


class StepStatus(StrEnum):
    """How a step stands."""

    PENDING = "pending"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    ASKING = "asking"
    DONE = "done"
    SKIPPED = "skipped"
    """A person, or the flow, had the run go on without it."""
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def is_over(self) -> bool:
        """Whether steps that need it may begin."""
        return self in (StepStatus.DONE, StepStatus.SKIPPED)


class Artifact(Document, frozen=True, kw_only=True):
    """A file that a step left, as it was when the step ended."""

    path: Path
    byte_size: Count
    digest: OwnerDigest


class TryInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One try of a step; times are milliseconds since the epoch.  `number` counts all tries of the step from 1.

    `series` counts from 1, and is one more in each fresh series; `retry` counts from 0 within it.  `tail` is the end of
    what it wrote to stderr, redacted.
    """

    number: Count
    series: Count = 1
    retry: Count = 0
    started_at_ms: Count
    ended_at_ms: Count | None = None
    outcome: Outcome | None = None
    verdict: StepVerdict | None = None
    label: Label | None = None
    tail: Detail = ""
    artifacts: tuple[Artifact, ...] = ()
    session: tuple[str, str] | None = None
    """The session (adapter_id, harness_session_id) that it was seen to have in a harness."""


class StepInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How a step stands.  `question_id` names the open question, `retry_at_ms` when it is tried again.

    An answered question stays here until the run has taken the answer, a moment later; the inbox knows it at once.
    """

    step_id: Identifier
    status: StepStatus = StepStatus.PENDING
    tries: tuple[TryInfo, ...] = ()
    question_id: Identifier | None = None
    retry_at_ms: Count | None = None


class RunInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How a run stands.  `owner` is ``broker``, or the client that runs it; `number` counts what was recorded of it.

    `interruptions` counts how often whoever ran it ended in the middle.  `question_id` names the open question
    about the run as a whole.
    """

    run_id: Identifier
    name: Identifier
    client_id: Identifier
    root: Path
    owner: Identifier
    status: RunStatus
    started_at_ms: Count
    ended_at_ms: Count | None = None
    steps: tuple[StepInfo, ...] = ()
    interruptions: Count = 0
    cost_micros: Count = 0
    unpriced_calls: Count = 0
    tokens: Count = 0
    reason: Detail = ""
    number: Count = 0
    question_id: Identifier | None = None


class ContextSignals(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What is left for a step; null where it is unknown, or has no limit.

    `sources` says where each number comes from.
    """

    context_tokens_available: Count | None = None
    context_tokens_used: Count | None = None
    time_remaining_ms: Count | None = None
    retry_count: Count = 0
    max_retries: Count = 0
    is_approaching_limit: bool = False
    near: tuple[Identifier, ...] = ()
    """Which resources are near their limits."""
    sources: dict[str, str] = {}  # noqa: RUF012  msgspec makes a new one each time


class CostRecord(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The cost of calls to a model; `cost_micros` is in millionths of a US dollar, and null if no price is known.

    `input_tokens` are all tokens that were sent, including those from and for a cache.  A `key` counts once, as it was
    recorded last: the id of the response, with that of the request if there is one.
    """

    run_id: Identifier
    step_id: Identifier
    key: Identifier | None = None
    model: Identifier | None = None
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    calls: Count = 1
    cost_micros: Count | None = None

    def __post_init__(self) -> None:
        if self.cache_read_tokens + self.cache_write_tokens > self.input_tokens:
            raise ValueError("input_tokens: those from and for a cache are a part of them")
        if not f"{self.run_id}{self.step_id}{self.key}{self.model}".isprintable():
            refuse_unprintable(self)


class CostSummary(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a run has cost, in all and by step.  No sum of money includes the `unpriced_calls`."""

    cost_micros: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    calls: Count = 0
    unpriced_calls: Count = 0
    by_step: dict[str, "CostSummary"] = {}  # noqa: RUF012  msgspec makes a new one each time


class CompactionEnd(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The result of asking a harness to make the context of a step's session smaller.

    `compacted` says whether it did, and `reason` why not.  `session` is (adapter_id, harness_session_id).  The tokens
    of the context are those that the harness reports; null if it reports none.
    """

    session: tuple[str, str]
    compacted: bool
    reason: Detail = ""
    tokens_before: Count | None = None
    tokens_after: Count | None = None
    duration_ms: Count = 0


class LogEvent(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A structured log event of a run: a name of the client's own, and its data."""

    event: Identifier
    run_id: Identifier
    step_id: Identifier | None = None
    at_ms: Count
    data: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty
