"""Refusals as bodies of answers: the same form for every route.  Pure."""

from typing import Final, Literal

from msgspec import Struct

from lifebus_contract import FailureClass, LifebusError
from lifebus_transports.http.access.checks import AccessRefusal
from lifebus_transports.http.access.rbac import Denied
from lifebus_transports.http.operations.operation import RouteReply

_STATUS: Final = {
    FailureClass.INVALID_REQUEST: 400,
    FailureClass.PAYLOAD_TOO_LARGE: 413,
    FailureClass.OPERATOR_REQUIRED: 403,
    FailureClass.ADAPTER_UNAVAILABLE: 404,
    FailureClass.CAPABILITY_UNSUPPORTED: 409,
    FailureClass.STATE_CONFLICT: 409,
    FailureClass.TRANSPORT_ERROR: 503,
    FailureClass.TIMEOUT: 504,
}


class ErrorBody(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why a request was refused; `issues` says what of it does not fit."""

    status: Literal["error", "unauthorized", "forbidden"]
    code: str
    message: str
    issues: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    role: str = ""


class HttpRefusal(Exception):
    """A request that is not served."""

    def __init__(self, reply: RouteReply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def refuse(status: int, code: str, message: str, issues: tuple[str, ...] = ()) -> RouteReply:
    """Return a refusal."""
    return RouteReply(status, ErrorBody(status=_word(status), code=code, message=message, issues=issues))


def refuse_access(refusal: AccessRefusal) -> RouteReply:
    """Return why a caller is not let in."""
    required, role = (refusal.required, refusal.role) if isinstance(refusal, Denied) else ((), "")
    return RouteReply(
        refusal.status,
        ErrorBody(
            status=_word(refusal.status),
            code=refusal.code,
            message=refusal.message,
            required=required,
            role=role,
        ),
    )


def refusal_of(fault: LifebusError) -> RouteReply:
    """Return the refusal that stands for an error of the broker."""
    if fault.code == "busy":
        return refuse(503, "busy", fault.detail)
    if fault.code == "queue_full":
        return refuse(429, "queue_full", fault.detail)
    code = fault.code or fault.failure_class.value.lower()
    return refuse(_STATUS.get(fault.failure_class, 500), code, fault.detail)


def _word(status: int) -> Literal["error", "unauthorized", "forbidden"]:
    match status:
        case 401:
            return "unauthorized"
        case 403:
            return "forbidden"
        case _:
            return "error"
