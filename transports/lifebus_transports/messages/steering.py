"""What passes between the broker and the observers of app-servers that are steered (docs/steering.md).

An observer waits with `steer` for an order, and reports with `steered` what became of it.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta

from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.fields import MAX_INTEGER, Document, Identifier, refuse_unprintable

MAX_TEXT: Final = 65_536
"""Most characters of what a turn is told."""

MAX_WAIT_MS: Final = 30_000
"""Longest wait for an order, in milliseconds."""

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
"""What commands of a turn may change, in the app-server's words."""

_Number = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
Responder = Annotated[str, Meta(min_length=1, max_length=128)]
"""Who decided."""

_ApprovalId = Annotated[str, Meta(max_length=600)]


class SteeringState(StrEnum):
    """What became of an order."""

    DONE = "done"
    LATE = "late"
    """A person or the server has settled it before; nothing was sent, or it was too late."""
    REFUSED = "refused"
    """The server answered with an error."""
    UNREACHABLE = "unreachable"
    """Nothing was sent."""
    UNKNOWN = "unknown"
    """It was sent, and no answer was seen."""
    PENDING = "pending"
    """Of an `approval` that is looked for: the server waits for it; of a `turn`: it runs."""
    ABSENT = "absent"
    """This observer knows nothing of it, and knows all that it ever did."""
    FORGOTTEN = "forgotten"
    """This observer knows nothing of it, and no longer knows all that it did."""


class AwaitOrder(Document, frozen=True, kw_only=True):
    """`steer`: return the next order for this observer's app-server, as soon as there is one."""

    client_id: Identifier
    adapter_id: Identifier
    origin: Identifier
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] = MAX_WAIT_MS


class SteeringOrder(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What an app-server is to be told.

    `approval` looks for an approval, `decide` answers it with the protocol's word (``accept``), for the whole session
    with `for_session`; `steer` tells a turn something more, `steered` asks what became of the one with this
    `action_id`.  `open` opens a thread of the broker's own beside `thread`, where commands may do what `sandbox` says;
    `start` begins a turn in such a thread, `interrupt` ends it, `turn` asks whether it runs.
    `by` is who wants it, `timeout_ms` how long it may take.
    """

    number: _Number
    kind: Literal["approval", "decide", "steer", "start", "steered", "open", "interrupt", "turn"]
    by: Identifier = "lifebus"
    approval_id: _ApprovalId = ""
    decision: Literal["accept", "decline", "cancel"] = "decline"
    for_session: bool = False
    thread: Annotated[str, Meta(max_length=256)] = ""
    turn: Annotated[str, Meta(max_length=256)] = ""
    text: Annotated[str, Meta(max_length=65_536)] = ""
    model: Annotated[str, Meta(max_length=256)] = ""
    effort: Annotated[str, Meta(max_length=256)] = ""
    sandbox: Sandbox = "read-only"
    action_id: Annotated[str, Meta(max_length=256)] = ""
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 10_000


class NextOrder(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `steer`: the order, none where there was none for so long."""

    order: SteeringOrder | None = None


class OrderReport(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`steered`: what became of an order; `thread` and `turn` are those that it was about."""

    client_id: Identifier
    origin: Identifier
    number: _Number
    state: SteeringState
    message: Annotated[str, Meta(max_length=1_024)] = ""
    thread: Annotated[str, Meta(max_length=256)] = ""
    turn: Annotated[str, Meta(max_length=256)] = ""


class PersonDecision(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`approval_decide`: a person decides an approval that an app-server waits for.

    `responder` says who, and stands in the receipt of the answer as ``person:NAME``.
    """

    approval_id: Identifier
    decision: ApprovalDecision
    scope: DecisionScope = DecisionScope.TURN
    responder: Responder

    def __post_init__(self) -> None:
        if not (self.approval_id + self.responder).isprintable():
            refuse_unprintable(self)


class DecidedApproval(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `approval_decide`: the app-server has taken it."""

    approval_id: Identifier
    thread_id: Identifier
    turn_id: Identifier | None = None
