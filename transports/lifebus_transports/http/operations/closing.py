"""The routes by which a session is closed, and an ended one forgotten (docs/sessions.md, "Closing and forgetting")."""

from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import Identifier
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.operations.receipts import whole_session
from lifebus_transports.http.operations.transcripts import UNKNOWN, SessionNotFound, SessionPlace, session_of
from lifebus_transports.http.ports import KindOf, OperatorPeer
from lifebus_transports.messages.sessions import CloseSession, ForgetSession, SessionReceipts

_CLIENT = "gateway"
"""Whose name the receipts have."""


class AdapterBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The adapter whose session it is."""

    adapter_id: Identifier


class StoredReceiptItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A receipt with its position in the ledger."""

    position: int
    receipt: msgspec.Raw


class SessionEnded(Struct, frozen=True, kw_only=True, rename="camel"):
    """The receipts that say it; none where the session was forgotten already."""

    status: Literal["ok"] = OK
    session_id: str
    data: tuple[StoredReceiptItem, ...]


OPERATIONS = (
    Operation(
        name="closeSession",
        method="POST",
        path="/api/sessions/{sessionId}/close",
        summary="Ends a session that is open, and its open frames before it.",
        tag="sessions",
        place=SessionPlace,
        body=AdapterBody,
        body_last=True,
        answers={200: SessionEnded, 409: ErrorBody, **UNKNOWN},
    ),
    Operation(
        name="forgetSession",
        method="POST",
        path="/api/sessions/{sessionId}/forget",
        summary="Drops what is kept of an ended session beside its receipts.",
        tag="sessions",
        place=SessionPlace,
        body=AdapterBody,
        body_last=True,
        answers={200: SessionEnded, 409: ErrorBody, **UNKNOWN},
    ),
)


def served(kind_of: KindOf) -> Served:
    """Return what serves each operation; `kind_of` says whose sessions are left alone."""
    return {
        "closeSession": partial(_end, kind_of, "session_close", CloseSession),
        "forgetSession": partial(_end, kind_of, "session_forget", ForgetSession),
    }


async def _end(kind_of: KindOf, verb: str, kind: type[CloseSession], asked: RouteRequest) -> SessionEnded:
    session_id: str = asked.place.session_id
    if "#" in session_id:
        with suppress(LifebusError):  # called so by nobody: then it is an id
            _, session_id = await whole_session(asked.calls, None, session_id) or ("", session_id)
    match kind_of(session_id):
        case "deleted":
            await session_of(asked)  # says when that was
        case "system":
            raise HttpRefusal(refuse(403, "system_session", "the session belongs to a worker of the broker"))
        case "user":
            pass
    body: AdapterBody = asked.require_body()
    try:
        wanted = kind(client_id=_CLIENT, adapter_id=body.adapter_id, session=session_id)
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the address does not fit", (str(fault)[:512],))) from None
    try:
        # The token is the proof that the caller may do to sessions what their owner does.
        done: SessionReceipts = await asked.calls.call(OperatorPeer(), verb, wanted)
    except LifebusError as fault:
        # Of an adapter that nobody knows there is no session either.
        if fault.code in {"no_session", "unknown_adapter"}:
            missing = SessionNotFound(session_id=session_id, message=fault.detail)
            raise HttpRefusal(RouteReply(404, missing)) from None
        raise
    stored = zip(done.positions, done.receipts, strict=True)
    data = tuple(StoredReceiptItem(position=position, receipt=msgspec.Raw(raw)) for position, raw in stored)
    return SessionEnded(session_id=session_id, data=data)
