"""Extensions: the events that they are told, the results of their handlers, and what is known of each; wire types.

See docs/extensions.md.  Keys are written in camelCase, as the events and the gateway have them.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.fields import Count, Document, Identifier, Metadata
from lifebus_contract.jobs import EnqueueStatus

ModuleName = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f/]{1,128}$(?!\n)")]
"""The name of an extension's folder: results, trust and the order of a pass go by it."""

EventType = Annotated[str, Meta(min_length=1, max_length=256)]
"""The name of an event, such as ``app_server.turn.started`` or ``lifecycle.frame.ended``."""

LIFECYCLE_PREFIX: Final = "lifecycle."
"""Before the name of a lifecycle event, in the type of the event by which extensions are told its receipts."""

FILE_CHANGE_APPROVAL_REQUESTED: Final = "file_change.approval_requested"
TURN_COMPLETED: Final = "turn.completed"
SUGGEST_REQUEST_REQUESTED: Final = "suggest_request.requested"


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What extensions and gateways read: keys that a later version adds are passed over."""


# What extensions are told.


class RuntimeEvent(_Wire, frozen=True, kw_only=True):
    """One event as it is dispatched to handlers.

    `payload` is as plain as JSON is: what it holds depends on `type`.  `emitted_at` is a time such as
    ``2026-11-22T04:14:02.123Z``, `correlation_id` says what it was made from: the id of a receipt, or the thread and
    the number of a signal.
    """

    type: EventType
    payload: Any
    emitted_at: str
    correlation_id: str | None = None


class EventContext(_Wire, frozen=True, kw_only=True):
    """What a synthesised event is about.  `source_session_id` and `thread_id` are the app-server's."""

    project_id: str
    source_session_id: str
    thread_id: str
    turn_id: str
    item_id: str | None = None
    approval_id: str | None = None
    anchor_item_id: str | None = None
    user_request: str | None = None
    turn_transcript: str | None = None


class FileChangeApprovalRequested(_Wire, frozen=True, kw_only=True):
    """The payload of ``file_change.approval_requested``: somebody has to decide about changes of files."""

    context: EventContext
    summary: str
    details: str
    source_event: Literal["approval_request", "approvals_reconcile"]
    file_change_status: Literal["pending_approval"]


class TurnCompletedContext(_Wire, frozen=True, kw_only=True):
    """Which turn completed."""

    project_id: str
    source_session_id: str
    thread_id: str
    turn_id: str
    user_request: str | None = None


class TurnCompleted(_Wire, frozen=True, kw_only=True):
    """The payload of ``turn.completed``: a turn is over in which changes of files were to be approved."""

    context: TurnCompletedContext
    had_file_change_requests: bool
    turn_transcript_snapshot: str
    file_change_request_count: Count | None = None


class SuggestRequestRequested(_Wire, frozen=True, kw_only=True):
    """The payload of ``suggest_request.requested``: somebody wants a next request suggested."""

    request_key: str
    session_id: str
    project_id: str
    thread_id: str
    turn_id: str
    user_request: str
    turn_transcript: str
    model: str | None = None
    effort: str | None = None
    draft: str | None = None


# What handlers return, and what becomes of it.


class ActionStatus(StrEnum):
    """What became of a request for an action."""

    PERFORMED = "performed"
    """It was done; the first one of a pass is authoritative."""
    ALREADY_RESOLVED = "already_resolved"
    """What it wanted to settle is settled."""
    NOT_ELIGIBLE = "not_eligible"
    """Another request won the pass, or its subject does not take it."""
    CONFLICT = "conflict"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    FAILED = "failed"

    @property
    def is_reconciled(self) -> bool:
        """Whether it is an expected outcome: done, or overtaken by what somebody else did."""
        return self not in (ActionStatus.FORBIDDEN, ActionStatus.INVALID, ActionStatus.FAILED)


class ActionRequest(
    _Wire, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="action_request", tag_field="kind"
):
    """What a handler or a worker returns that wants something done."""

    action_type: Annotated[str, Meta(pattern=r"\S", max_length=128)]
    payload: dict[str, Any]
    request_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    idempotency_key: Annotated[str, Meta(pattern=r"\S", max_length=300)] | None = None


class ActionScope(Struct, frozen=True, kw_only=True):
    """To what an action is locked: it may change nothing of another project, session or turn; None locks nothing."""

    project_id: str | None = None
    source_session_id: str | None = None
    turn_id: str | None = None


class ActionOutcome(Struct, frozen=True, kw_only=True):
    """What an executor made of a request; `request_id` is that of the first request where it only repeats a result."""

    status: ActionStatus
    details: Metadata | None = None
    request_id: str | None = None


class JobIdentity(_Wire, frozen=True, kw_only=True):
    """Which job was queued."""

    id: Identifier
    type: Identifier
    project_id: Identifier
    source_session_id: str | None = None
    state: str | None = None


class EnqueueResult(_Wire, frozen=True, kw_only=True, tag="enqueue_result", tag_field="kind"):
    """A handler queued a job, or found it queued."""

    module_name: str
    event_type: str
    status: EnqueueStatus
    job: JobIdentity


class ActionResult(_Wire, frozen=True, kw_only=True, tag="action_result", tag_field="kind"):
    """What became of the action that a handler asked for; `details` have a `code` wherever it was not simply done."""

    module_name: str
    event_type: str
    action_type: str
    status: ActionStatus
    request_id: str | None = None
    idempotency_key: str | None = None
    details: Metadata | None = None


class HandlerResult(_Wire, frozen=True, kw_only=True, tag="handler_result", tag_field="kind"):
    """A handler ended and wants nothing; `details` are for whoever looks for a fault."""

    module_name: str
    event_type: str
    details: Metadata | None = None


class HandlerError(_Wire, frozen=True, kw_only=True, tag="handler_error", tag_field="kind"):
    """A handler failed: it raised, was too late, ended with its process, or returned what no handler may."""

    module_name: str
    event_type: str
    error: str
    code: str = "handler_failed"


EmitResult = EnqueueResult | ActionResult | HandlerResult | HandlerError
"""What a handler's call came to; the key `kind` says which."""


# What is known of extensions.


class OriginType(StrEnum):
    """The kind of root in which an extension was found, the strongest first."""

    REPO_LOCAL = "repo_local"
    INSTALLED_PACKAGE = "installed_package"
    CONFIGURED_ROOT = "configured_root"


class TrustStatus(StrEnum):
    """How an extension fares under the trust mode."""

    ACCEPTED = "accepted"
    ACCEPTED_WITH_WARNINGS = "accepted_with_warnings"
    DENIED = "denied"


class LoadErrorCode(StrEnum):
    """Why an extension was not loaded."""

    MISSING_ENTRYPOINT = "missing_entrypoint"
    INVALID_MANIFEST = "invalid_manifest"
    INCOMPATIBLE_RUNTIME = "incompatible_runtime"
    IMPORT_FAILED = "import_failed"
    MISSING_REGISTER = "missing_register"
    REGISTRATION_FAILED = "registration_failed"
    TRUST_DENIED = "trust_denied"
    AGENT_ID_CONFLICT = "agent_id_conflict"
    MODULE_NAME_CONFLICT = "module_name_conflict"
    UNSAFE_PATH = "unsafe_path"
    HOST_FAILED = "host_failed"


class _Listed(Document, frozen=True, kw_only=True, rename="camel"):
    """What lists of extensions are made of: every key is there, null where nothing is known."""


class ExtensionOrigin(_Listed, frozen=True, kw_only=True):
    """Where an extension was found: its root's kind, and its own folder."""

    type: OriginType
    path: str


class Compatibility(_Listed, frozen=True, kw_only=True):
    """What an extension requires of the runtime, and whether it is met; one reason for each that is not."""

    api_version: int | None
    api_version_range: str | None
    runtime_version: int
    profile_id: str
    profile_version: str
    compatible: bool
    reasons: tuple[str, ...] = ()


class ExtensionCapabilities(_Listed, frozen=True, kw_only=True):
    """The events and actions that an extension declares; ``*`` stands for everything in its list."""

    events: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class TrustEvaluation(_Listed, frozen=True, kw_only=True):
    """How far an extension is trusted.  `content_hash` is of its files, `trusted_hash` of those that were recorded."""

    mode: TrustMode
    status: TrustStatus
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    content_hash: str | None = None
    trusted_hash: str | None = None


class ExtensionInfo(_Listed, frozen=True, kw_only=True):
    """A loaded extension."""

    module_name: str
    name: str
    version: str
    agent_id: str
    display_name: str
    manifest_path: str | None
    entrypoint_path: str
    events: tuple[str, ...]
    origin: ExtensionOrigin
    compatibility: Compatibility
    capabilities: ExtensionCapabilities
    trust: TrustEvaluation
    diagnostics: tuple[str, ...] = ()


class LoadError(_Listed, frozen=True, kw_only=True):
    """Why an extension is not loaded; `extension` is the name in its manifest, or that of its folder."""

    extension: str
    code: LoadErrorCode
    message: str


class ReloadStatus(StrEnum):
    """How a reload went."""

    OK = "ok"
    FAILED = "reload_failed"
    IN_PROGRESS = "reload_in_progress"


class AuditRecord(_Listed, frozen=True, kw_only=True):
    """One reload, or one trust that was recorded, as the audit keeps it.

    `actor_role` and `actor_id` say who asked, `origin` by which way; `snapshot_after` is None where nothing changed.
    """

    number: Count = 0
    reload_id: str
    recorded_at: str
    action: Literal["reload", "trust", "start"]
    actor_role: str
    actor_id: str | None
    origin: Metadata
    result: Literal["success", "failed", "forbidden"]
    snapshot_before: str
    snapshot_after: str | None
    trust_mode: TrustMode
    error_summary: str | None
    impacted_extensions: tuple[str, ...]
