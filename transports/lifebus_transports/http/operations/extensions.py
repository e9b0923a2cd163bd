"""The routes of extensions: what is loaded, and a reload; both ask for a role (docs/gateway.md, "Roles")."""

import structlog
from starlette.types import Scope

from lifebus_contract import LifebusError
from lifebus_contract.extensions import ReloadStatus
from lifebus_transports.http.access.checks import AccessRefusal
from lifebus_transports.http.access.rbac import MAY_LIST, MAY_RELOAD, Denied
from lifebus_transports.http.operations.operation import Gate, NoFields, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import Calls, OperatorPeer
from lifebus_transports.http.requests import origin_of
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.extensions.bodies import (
    Actor,
    DenyExtensions,
    ExtensionList,
    ReloadAnswer,
    ReloadExtensions,
)

_log = structlog.get_logger("lifebus.gateway")

OPERATIONS = (
    Operation(
        name="extensions",
        method="GET",
        path="/api/agents/extensions",
        summary="Lists the extensions that are loaded.",
        tag="extensions",
        answers={200: ExtensionList},
        gate=Gate.ROLE,
        roles=MAY_LIST,
    ),
    Operation(
        name="reloadExtensions",
        method="POST",
        path="/api/agents/extensions/reload",
        summary="Loads every extension anew, or changes nothing.",
        tag="extensions",
        body=NoFields,
        answers={200: ReloadAnswer, 400: ReloadAnswer, 409: ReloadAnswer},
        gate=Gate.ROLE,
        roles=MAY_RELOAD,
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"extensions": _list, "reloadExtensions": _reload}


async def _list(asked: RouteRequest) -> ExtensionList:
    found: ExtensionList = await asked.calls.call(asked.peer, "extensions_list", Nothing())
    return found


async def _reload(asked: RouteRequest) -> RouteReply:
    actor = Actor(role=asked.actor.role, id=asked.actor.actor, origin=asked.origin)
    # The role was the proof that the caller may do what operators do.
    answer: ReloadAnswer = await asked.calls.call(OperatorPeer(), "extensions_reload", ReloadExtensions(actor=actor))
    return RouteReply(_status(answer), answer)


async def denied(calls: Calls, refusal: AccessRefusal, scope: Scope) -> None:
    """Have the audit say that a reload was denied; where it cannot, the denial stands all the same."""
    role = refusal.role if isinstance(refusal, Denied) else ""
    body = DenyExtensions(actor=Actor(role=role or "unknown", origin=origin_of(scope)), why=refusal.code)
    try:
        await calls.call(OperatorPeer(), "extensions_denied", body)
    except LifebusError as fault:
        _log.warning("gateway_denial_not_audited", code=fault.code)


def _status(answer: ReloadAnswer) -> int:
    if answer.status == "ok":
        return 200
    return 409 if answer.code == ReloadStatus.IN_PROGRESS else 400
