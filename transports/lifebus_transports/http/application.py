"""The gateway as one ASGI application: the gate, the routes, the streams."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from lifebus_transports.http.access.gate import GatewayGate, Identity
from lifebus_transports.http.access.paths import FILE, PAGE
from lifebus_transports.http.dashboard.files import DashboardFiles
from lifebus_transports.http.documents.asyncapi import asyncapi
from lifebus_transports.http.documents.openapi import openapi
from lifebus_transports.http.events import EventStreams
from lifebus_transports.http.following.follower import Following
from lifebus_transports.http.operations import (
    approvals,
    closing,
    consumers,
    extensions,
    flows,
    inbox,
    jobs,
    ledger,
    logins,
    metrics,
    receipts,
    reports,
    sessions,
    signals,
    suggestions,
    transcripts,
)
from lifebus_transports.http.operations.broker import BrokerRoutes
from lifebus_transports.http.operations.errors import refuse
from lifebus_transports.http.operations.operation import Served
from lifebus_transports.http.operations.table import OPERATIONS, bind
from lifebus_transports.http.ports import Calls, KindOf, ReportMaker
from lifebus_transports.http.requests import endpoint_of, respond
from lifebus_transports.http.sockets import SocketStreams

EVENTS: Final = "/api/events"
STREAM: Final = "/api/stream"

_SMALL: Final = 1_024  # what is shorter is not worth compressing
_CODES: Final = {404: "not_found", 405: "method_not_allowed"}


class Gateway(Struct, frozen=True, kw_only=True):
    """What the application is made of; `further` serves operations of other families."""

    calls: Calls
    kind_of: KindOf
    following: Following
    metrics: Callable[[], str]
    reports: ReportMaker
    identity: Identity
    is_secure: bool = False
    compression: bool = False
    has_queue: bool = True
    further: Iterable[Served] = ()


def make_application(gateway: Gateway) -> ASGIApp:
    """Return the application.

    Raises:
        ValueError: an operation is served by nothing or twice.
    """
    served = bind(_families(gateway))
    routes: list[BaseRoute] = [
        Route(operation.path, endpoint_of(operation, served[operation.name], gateway.calls), methods=[operation.method])
        for operation in OPERATIONS
    ]
    routes += [
        Route(EVENTS, EventStreams(gateway.following).answer, methods=["GET"]),
        WebSocketRoute(STREAM, SocketStreams(gateway.following)),
    ]
    files = DashboardFiles()
    routes += [Route(path, files.answer, methods=["GET"]) for path in (PAGE, FILE)]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _plain})
    # Redirects would carry a token to another address.
    inner.router.redirect_slashes = False
    app: ASGIApp = GZipMiddleware(inner, minimum_size=_SMALL) if gateway.compression else inner
    return GatewayGate(
        app,
        gateway.identity,
        OPERATIONS,
        streams=frozenset({EVENTS, STREAM}),
        counters=gateway.following.counters,
        denied=partial(extensions.denied, gateway.calls),
    )


def _families(gateway: Gateway) -> tuple[Served, ...]:
    """Return what serves the operations of each family."""
    documents: Mapping[str, Callable[[], dict[str, Any]]] = {"openapi": openapi, "asyncapi": asyncapi}
    return (
        BrokerRoutes(gateway.identity.tickets, documents).served(),
        logins.LoginRoutes(gateway.identity.logins, is_secure=gateway.is_secure).served(),
        receipts.served(),
        sessions.served(gateway.kind_of),
        signals.served(),
        jobs.served(has_queue=gateway.has_queue),
        transcripts.served(),
        closing.served(gateway.kind_of),
        suggestions.served(has_queue=gateway.has_queue),
        approvals.served(),
        inbox.served(),
        flows.served(),
        consumers.served(),
        ledger.served(),
        reports.served(gateway.reports),
        extensions.served(),
        metrics.served(gateway.metrics),
        *gateway.further,
    )


def _plain(_: Request, fault: Exception) -> Response:
    """Return what no route was found for, in the form of every refusal."""
    status, headers = (fault.status_code, fault.headers) if isinstance(fault, HTTPException) else (500, None)
    response = respond(refuse(status, _CODES.get(status, "request_failed"), "there is no such route"))
    for name, value in (headers or {}).items():
        response.headers[name] = value
    return response
