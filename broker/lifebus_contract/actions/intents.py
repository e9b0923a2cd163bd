"""A worker's answer as a batch of requests for actions, and what is told of them; wire types (docs/actions.md)."""

from typing import Annotated, Literal

from msgspec import Meta

from lifebus_contract.actions.payloads import ActionPayload
from lifebus_contract.extensions import ActionRequest, ActionStatus
from lifebus_contract.fields import Metadata
from lifebus_contract.jobs import MAX_INTENTS


class ActionIntents(ActionPayload, frozen=True, kw_only=True, tag="action_intents", tag_field="kind"):
    """The whole answer of a worker that is to answer with action intents."""

    intents: Annotated[tuple[ActionRequest, ...], Meta(min_length=1, max_length=MAX_INTENTS)]


class IntentProgress(ActionPayload, frozen=True, kw_only=True, omit_defaults=False):
    """How far a worker's intents are; `index` counts from 1."""

    stage: Literal["action_intent"] = "action_intent"
    index: int
    action_type: str
    status: ActionStatus


class IntentResult(ActionPayload, frozen=True, kw_only=True):
    """What became of one intent, as the job's result has it."""

    action_type: str
    status: ActionStatus
    request_id: str | None = None
    idempotency_key: str | None = None
    details: Metadata | None = None
