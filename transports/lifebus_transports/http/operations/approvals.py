"""The route of approvals that app-servers wait for: a person decides one (docs/steering.md)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import OperatorPeer
from lifebus_transports.messages.steering import DecidedApproval, PersonDecision, Responder


class ApprovalPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """An approval: the id of its turn, a colon, and the id of the app-server's request as JSON."""

    approval_id: Annotated[str, Meta(min_length=1, max_length=256)]


class DecisionBody(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a person decided, and who that is; other fields are left out."""

    decision: ApprovalDecision
    scope: DecisionScope = DecisionScope.TURN
    responder: Responder = "gateway"


class DecisionTaken(Struct, frozen=True, kw_only=True, rename="camel"):
    """The app-server has taken the decision."""

    status: Literal["ok"] = OK
    approval_id: str
    thread_id: str


class DecisionReconciled(Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody else decided before, or the turn is over: nothing is wrong, and nothing was done."""

    status: Literal["reconciled"] = "reconciled"
    code: Literal["already_resolved"] = "already_resolved"
    approval_id: str
    message: str


class ApprovalNotFound(Struct, frozen=True, kw_only=True, rename="camel"):
    """No app-server waits for such an approval."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_approval"] = "no_approval"
    approval_id: str
    message: str


class ApprovalDeleted(Struct, frozen=True, kw_only=True, rename="camel"):
    """The session of the approval was deleted."""

    status: Literal["deleted"] = "deleted"
    code: Literal["session_deleted"] = "session_deleted"
    approval_id: str
    message: str


OPERATIONS = (
    Operation(
        name="decideApproval",
        method="POST",
        path="/api/approvals/{approvalId}/decision",
        summary="Has an app-server told how a person decided what it waits for.",
        tag="approvals",
        place=ApprovalPlace,
        body=DecisionBody,
        answers={
            200: DecisionTaken,
            404: ApprovalNotFound,
            409: DecisionReconciled,
            410: ApprovalDeleted,
            504: ErrorBody,
        },
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"decideApproval": _decide}


async def _decide(asked: RouteRequest) -> DecisionTaken:
    approval_id: str = asked.place.approval_id
    body: DecisionBody = asked.body
    try:
        wanted = PersonDecision(
            approval_id=approval_id, decision=body.decision, scope=body.scope, responder=body.responder
        )
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the request does not fit", (str(fault)[:512],))) from None
    try:
        # The token is the proof that the caller may decide what the broker's user may.
        done: DecidedApproval = await asked.calls.call(OperatorPeer(), "approval_decide", wanted)
    except LifebusError as fault:
        raise _refusal(approval_id, fault) from None
    return DecisionTaken(approval_id=approval_id, thread_id=done.thread_id)


def _refusal(approval_id: str, fault: LifebusError) -> Exception:
    match fault.code:
        case "no_approval":
            return HttpRefusal(RouteReply(404, ApprovalNotFound(approval_id=approval_id, message=fault.detail)))
        case "approval_settled":
            return HttpRefusal(RouteReply(409, DecisionReconciled(approval_id=approval_id, message=fault.detail)))
        case "session_deleted":
            return HttpRefusal(RouteReply(410, ApprovalDeleted(approval_id=approval_id, message=fault.detail)))
        case _:
            return fault
