"""What extensions and workers may have done: the payloads of the four actions; wire types.

See docs/actions.md.  The envelope is `extensions.ActionRequest`.  Keys are in camel case, and one that a later version
adds is passed over.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from lifebus_contract.fields import Identifier, Metadata
from lifebus_contract.jobs import Dedupe, DedupeKey, JobPriority, ProjectId
from lifebus_contract.transcripts import TranscriptEntry


class ActionType(StrEnum):
    """What may be asked for."""

    UPSERT = "transcript.upsert"
    """An entry of a session's transcript is written."""
    DECIDE = "approval.decide"
    """An approval that an app-server waits for is decided."""
    STEER = "turn.steer.create"
    """A turn of an app-server that runs is told something more."""
    ENQUEUE = "queue.enqueue"
    """A job is queued."""


class ApprovalDecision(StrEnum):
    """How an approval is decided."""

    ACCEPT = "accept"
    DECLINE = "decline"
    """It is not done, and the turn goes on."""
    CANCEL = "cancel"
    """It is not done, and the turn ends."""


class DecisionScope(StrEnum):
    """For how long a decision holds."""

    TURN = "turn"
    SESSION = "session"
    """The same is not asked again in this session."""


class ActionPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The payload of one type of action."""


class TranscriptUpsert(ActionPayload, frozen=True, kw_only=True):
    """The payload of ``transcript.upsert``.  On the wire the entry's `details` may be any JSON; it is kept as text."""

    session_id: Identifier
    entry: TranscriptEntry


class DecideApproval(ActionPayload, frozen=True, kw_only=True):
    """The payload of ``approval.decide``."""

    approval_id: Identifier
    decision: ApprovalDecision
    scope: DecisionScope = DecisionScope.TURN


class SteerTurn(ActionPayload, frozen=True, kw_only=True):
    """The payload of ``turn.steer.create``."""

    session_id: Identifier
    turn_id: Identifier
    input: Annotated[str, Meta(pattern=r"\S", max_length=65_536)]


class EnqueueJob(ActionPayload, frozen=True, kw_only=True):
    """The payload of ``queue.enqueue``; what is null is as the job's type has it."""

    type: Identifier
    project_id: ProjectId
    payload: Metadata
    source_session_id: Identifier | None = None
    priority: JobPriority | None = None
    dedupe: Dedupe | None = None
    dedupe_key: DedupeKey | None = None


Action = TranscriptUpsert | DecideApproval | SteerTurn | EnqueueJob
"""The payload of a request, read."""
