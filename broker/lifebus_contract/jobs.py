"""Jobs of the queue and the events they emit: wire types (docs/queue.md).

The keys are those of the runtime event contract, camelCase on the wire; times are ISO 8601 in UTC with milliseconds.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from lifebus_contract.fields import Count, Document, Identifier, Label, Metadata, refuse_unprintable
from lifebus_contract.flows import RetryPause

ADAPTER: Final = "lifebus"
"""The adapter id under which the bus's own signals are filed."""

MAX_PAYLOAD_BYTES: Final = 131_072
"""Most bytes of a job's payload, as JSON."""

MAX_RESULT_BYTES: Final = 49_152
"""Most bytes of a result, or of one progress report, as JSON: its event has to fit into a signal."""

MAX_TARGETS: Final = 8
"""Most supplemental targets of one job."""

MAX_INTENTS: Final = 32
"""Most action requests that one worker may answer with."""

MAX_PROJECT: Final = 200
"""Most characters of a project's id."""

MAX_DEDUPE_KEY: Final = 512
"""Most characters of a key that makes two jobs the same."""

MAX_REASON: Final = 2_048
"""Most characters of what a job says of its end."""

MAX_SUGGESTION: Final = 8_000
"""Most characters of a suggested request."""

MAX_SUGGESTION_ERROR: Final = 4_000
"""Most characters of why there is none."""

ProjectId = Annotated[str, Meta(min_length=1, max_length=MAX_PROJECT)]
"""A project, or ``session:ID`` for a session without one; it is a part of a thread's name, which is bounded."""

JobId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$(?!\n)", max_length=128)]
"""The id of a job; whoever enqueues may choose it, so that the same call can be made again."""

DedupeKey = Annotated[str, Meta(min_length=1, max_length=MAX_DEDUPE_KEY)]
"""What makes two jobs of one project and type the same."""

SuggestionText = Annotated[str, Meta(max_length=MAX_SUGGESTION)]
"""The text of a suggested request."""

SuggestionError = Annotated[str, Meta(max_length=MAX_SUGGESTION_ERROR)]
"""Why there is none."""

_Text = Annotated[str, Meta(max_length=8_192)]
_Reason = Annotated[str, Meta(max_length=MAX_REASON)]
_Time = Annotated[str, Meta(max_length=32)]


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    """It waits for its turn, or for the pause before a retry."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows, unless somebody asks for a retry."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobPriority(StrEnum):
    """Which jobs of a project go first."""

    INTERACTIVE = "interactive"
    """Somebody waits for it."""
    BACKGROUND = "background"
    """It may wait; one that waited long enough goes first after some interactive ones."""


class Dedupe(StrEnum):
    """What becomes of a job whose key another one of its project and type has."""

    NONE = "none"
    """It is queued as well."""
    SINGLE_FLIGHT = "single_flight"
    """It is that one, where that one is queued or running."""
    DROP_DUPLICATE = "drop_duplicate"
    """It is that one, also where that one is over and still kept."""
    MERGE_DUPLICATE = "merge_duplicate"
    """Its payload is merged into that one, where that one is queued or running."""


class EnqueueStatus(StrEnum):
    """What became of a job that was to be queued."""

    ENQUEUED = "enqueued"
    ALREADY_QUEUED = "already_queued"
    """There is the same one already; that one is the answer."""


class JobEventType(StrEnum):
    """The events of the queue, as names of signals."""

    QUEUED = "orchestrator_job_queued"
    STARTED = "orchestrator_job_started"
    PROGRESS = "orchestrator_job_progress"
    COMPLETED = "orchestrator_job_completed"
    FAILED = "orchestrator_job_failed"
    CANCELED = "orchestrator_job_canceled"
    SUGGESTED_REQUEST_UPDATED = "suggested_request_updated"


class SuggestionStatus(StrEnum):
    """How a suggested request stands."""

    STREAMING = "streaming"
    COMPLETE = "complete"
    ERROR = "error"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether it is over: it does not stream again."""
        return self is not SuggestionStatus.STREAMING


class CamelDocument(Document, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A document whose keys are camelCase on the wire."""


class NewJob(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job that is to be queued.

    Where a field is null, the job's type decides.  A call with the same `job_id` and the same content means the same
    job; with other content it is refused.  `not_before_ms` is a time in milliseconds since the epoch.
    """

    type: Identifier  # such as `command` or `agent_instruction`
    project_id: ProjectId
    payload: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty
    job_id: JobId | None = None  # made by the library where it is None
    source_session_id: Identifier | None = None
    priority: JobPriority | None = None
    dedupe: Dedupe | None = None  # what becomes of it beside one of the same `dedupe_key`
    dedupe_key: DedupeKey | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] | None = None
    time_limit_ms: Annotated[int, Meta(ge=1, le=604_800_000)] | None = None  # of one attempt
    cancel_grace_ms: Annotated[int, Meta(ge=0, le=600_000)] | None = None  # between asking it to end and ending it
    pause: RetryPause | None = None
    not_before_ms: Count | None = None

    def __post_init__(self) -> None:
        if not f"{self.type}{self.project_id}{self.source_session_id}{self.dedupe_key}".isprintable():
            refuse_unprintable(self)


class RunningContext(CamelDocument, frozen=True, kw_only=True, omit_defaults=False, rename="camel"):
    """Where a job is being done: the thread and the turn of a worker, where it has some."""

    thread_id: Identifier | None = None
    turn_id: Identifier | None = None


class Job(CamelDocument, frozen=True, kw_only=True, rename="camel"):
    """A job with all its fields.  `next_attempt_at` is set while it waits for the pause before a retry."""

    id: JobId
    type: Identifier
    version: Count
    project_id: ProjectId
    source_session_id: Identifier | None
    priority: JobPriority
    state: JobState
    dedupe_key: DedupeKey | None
    payload: Metadata
    result: Any
    error: _Reason | None
    attempts: Count
    max_attempts: Count
    created_at: _Time
    started_at: _Time | None
    completed_at: _Time | None
    cancel_requested_at: _Time | None
    next_attempt_at: _Time | None
    last_attempt_at: _Time | None
    running_context: RunningContext


class Enqueued(CamelDocument, frozen=True, kw_only=True, rename="camel"):
    """What became of a new job, and the job that is queued now."""

    status: EnqueueStatus
    job: Job


class JobEventPayload(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What happened to a job.  `state` is the one after it."""

    job_id: JobId
    project_id: ProjectId
    job_type: Identifier
    state: JobState
    source_session_id: Identifier | None = None
    result: Any = None
    error: _Reason | None = None
    progress: Any = None


class SuggestedRequestPayload(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How a suggested request stands."""

    session_id: Identifier
    request_key: Identifier
    status: SuggestionStatus
    suggestion: _Text | None = None
    error: _Text | None = None


class Suggestion(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A suggested request; `updated_at` is in milliseconds since the epoch."""

    request_key: Identifier
    status: SuggestionStatus
    suggestion: SuggestionText | None = None
    error: SuggestionError | None = None
    updated_at: Count = 0


class JobEvent(CamelDocument, frozen=True, kw_only=True, rename="camel"):
    """An event of the queue, as a signal carries it; `thread_id` is the source session, null where there is none."""

    type: JobEventType
    thread_id: Identifier | None
    payload: JobEventPayload


class SuggestedRequestEvent(CamelDocument, frozen=True, kw_only=True, omit_defaults=False, rename="camel"):
    """The event of a suggested request, as a signal carries it."""

    type: Literal["suggested_request_updated"] = "suggested_request_updated"
    thread_id: Identifier | None
    payload: SuggestedRequestPayload


class BootstrapInstruction(CamelDocument, frozen=True, kw_only=True, rename="camel"):
    """What a worker is told once in its life, under a key of its own."""

    key: Identifier
    instruction_text: Annotated[str, Meta(min_length=1, max_length=65_536)]


class CompletionSignal(CamelDocument, frozen=True, kw_only=True, rename="camel"):
    """What else is over when the job is."""

    kind: Literal["suggested_request"]
    request_key: Identifier


class ExpectResponse(StrEnum):
    """What a worker's answer has to be."""

    NONE = "none"
    ASSISTANT_TEXT = "assistant_text"
    ACTION_INTENTS = "action_intents"


class SupplementalTarget(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An entry of the source session's transcript that ends when the job does.

    It begins with the first of `placeholder_texts`.  A fallback replaces its content where that is empty or still a
    placeholder.
    """

    message_id: Identifier
    type: Identifier
    placeholder_texts: Annotated[tuple[_Text, ...], Meta(max_length=12)] = ()
    complete_fallback: _Text | None = None
    error_fallback: _Text | None = None
    canceled_fallback: _Text | None = None


class AgentInstruction(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payload of the job type `agent_instruction`: a turn of a worker."""

    agent: Identifier
    job_kind: Identifier
    project_id: ProjectId
    source_session_id: Identifier
    thread_id: Identifier
    turn_id: Identifier
    instruction_text: Annotated[str, Meta(min_length=1)]
    item_id: Identifier | None = None
    approval_id: Identifier | None = None
    anchor_item_id: Identifier | None = None
    bootstrap_instruction: BootstrapInstruction | None = None
    dedupe_key: DedupeKey | None = None
    model: Label | None = None
    effort: Label | None = None
    fallback_suggestion_draft: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None
    expect_response: ExpectResponse = ExpectResponse.NONE
    supplemental_targets: Annotated[tuple[SupplementalTarget, ...], Meta(max_length=MAX_TARGETS)] = ()
    completion_signal: CompletionSignal | None = None

    @property
    def default_dedupe_key(self) -> str:
        """The key of jobs that give none to the queue."""
        own = self.dedupe_key or f"{self.thread_id}:{self.turn_id}:{self.job_kind}"
        return f"{self.project_id}:{own}"


class CommandWorker(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What makes a command a worker: the extension in whose name its intents are done, and what its answer has to be.

    `turn_id` locks its intents to a turn of the job's source session.
    """

    agent: Identifier
    job_kind: Identifier
    expect_response: ExpectResponse = ExpectResponse.ACTION_INTENTS
    turn_id: Identifier | None = None


class CommandPayload(CamelDocument, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payload of the job type `command`: a program and its arguments; no shell reads them.

    `cwd` is an absolute path.  `passing` are variables that are passed on (a star for any ending), `setting` those that
    are set.  `input` is the caller's own.  With `worker` its result is a worker's answer (docs/actions.md).
    With `completion_signal` it answers a suggested request: by the key ``suggestion`` of its result, or ``outputText``.
    """

    argv: Annotated[tuple[Annotated[str, Meta(max_length=8_192)], ...], Meta(min_length=1, max_length=256)]
    cwd: Annotated[str, Meta(pattern=r"^/", max_length=4_096)]
    passing: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    setting: Annotated[dict[str, str], Meta(max_length=256)] = field(default_factory=dict[str, str])
    input: Any = None
    supplemental_targets: Annotated[tuple[SupplementalTarget, ...], Meta(max_length=MAX_TARGETS)] = ()
    memory_mb: Annotated[int, Meta(ge=16)] | None = None
    cpu_s: Annotated[int, Meta(ge=1)] | None = None
    worker: CommandWorker | None = None
    completion_signal: CompletionSignal | None = None


def project_of(session_id: str, project_id: str | None = None) -> str:
    """Return the project of a session; one without a project is a project of its own."""
    return project_id or f"session:{session_id}"[:MAX_PROJECT]


def thread_of(project_id: str) -> str:
    """Return the thread of signals in which a project's jobs are told."""
    return f"queue/{project_id}"
