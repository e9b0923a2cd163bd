"""A request turned into the types of its operation, and an answer into bytes."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, get_args, get_origin
from urllib.parse import parse_qsl, unquote

import anyio
import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from lifebus_contract import LifebusError
from lifebus_transports.http.access.checks import Headers
from lifebus_transports.http.access.rbac import RoleActor
from lifebus_transports.http.operations.errors import HttpRefusal, refusal_of, refuse
from lifebus_transports.http.operations.operation import JSON, Operation, RouteReply, RouteRequest, Serve
from lifebus_transports.http.ports import Calls, GatewayPeer

MAX_BODY: Final = 1_048_576
_BODY_S: Final = 10.0
_MAX_PARAMETERS: Final = 128
_BAD_REQUEST: Final = 400

_log = structlog.get_logger("lifebus.gateway")

Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint_of(operation: Operation, serve: Serve, calls: Calls) -> Endpoint:
    """Return what answers a route."""

    async def answer(request: Request) -> Response:
        try:
            found = await serve(await _asked(request, operation, calls))
        except HttpRefusal as refusal:
            found = refusal.reply
        except LifebusError as fault:
            found = refusal_of(fault)
        except Exception:  # noqa: BLE001  a defect of ours costs this request, not the broker
            _log.exception("gateway_failed", operation=operation.name)
            found = refuse(500, "internal_error", "the gateway failed on this request; see the broker's log")
        return respond(found, operation.media)

    return answer


def respond(found: Any, media: str = JSON) -> Response:
    """Return an answer as bytes; where `media` is not JSON, refusals still are."""
    if isinstance(found, str) and media != JSON:
        return Response(found, media_type=media)
    reply = found if isinstance(found, RouteReply) else RouteReply(200, found)
    response = Response(msgspec.json.encode(reply.body), reply.status, media_type=JSON)
    for name, value in reply.headers:
        response.headers[name] = value
    return response


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request as text."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]


def origin_of(scope: Scope) -> dict[str, str]:
    """Return where a request came from, as an audit keeps it: `ip` and `userAgent`, each where it is known."""
    client: tuple[str, int] | None = scope.get("client")
    agent = next((value for name, value in headers_of(scope) if name == "user-agent"), "")
    found = {"ip": client[0] if client else "", "userAgent": agent[:256]}
    return {name: value for name, value in found.items() if value}


def query_of(text: str, kind: type[msgspec.Struct]) -> Any:
    """Return the parameters of an address in a type; those that are lists may come more than once.

    Raises:
        HttpRefusal: one is unknown, comes twice, or does not fit.
    """
    lists = {field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field.type)}
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the query cannot be read", (str(fault)[:200],))) from None
    for name, value in pairs:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise HttpRefusal(refuse(400, "invalid_request", "a parameter comes twice", (name[:64],)))
        else:
            found[name] = value
    return convert(found, kind, "a parameter does not fit")


def _is_list(kind: Any) -> bool:
    """Whether a parameter may come more than once."""
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(inner) is tuple


def convert(found: Any, kind: type[msgspec.Struct], message: str, *, strict: bool = False) -> Any:
    """Return plain data in a type.

    Raises:
        HttpRefusal: it does not fit.
    """
    try:
        return msgspec.convert(found, kind, strict=strict)
    except msgspec.ValidationError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", message, (str(fault)[:512],))) from None


async def _asked(request: Request, operation: Operation, calls: Calls) -> RouteRequest:
    """Read a request; its place before its body, and both after who may ask is settled.

    Raises:
        HttpRefusal: it does not fit its operation.
    """
    # Routes are found by paths that are encoded still: an id is decoded as a whole.
    parts = {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
    place = convert(parts, operation.place, "the address does not fit")
    query = query_of(request.scope["query_string"].decode("latin-1"), operation.query)
    body, fault = None, None
    try:
        body = None if operation.body is None else await _body(request, operation.body)
    except HttpRefusal as refusal:
        # One that is too large or too slow is refused at once, whatever it is for.
        if not operation.body_last or refusal.reply.status != _BAD_REQUEST:
            raise
        fault = refusal
    return RouteRequest(
        calls=calls,
        peer=GatewayPeer(),
        place=place,
        query=query,
        body=body,
        body_fault=fault,
        actor=request.scope.get("lifebus.actor", RoleActor("", None)),
        origin=origin_of(request.scope),
    )


async def _body(request: Request, kind: type[msgspec.Struct]) -> Any:
    """Return the body of a request; one without any bytes is an empty object where the type has no fields.

    Raises:
        HttpRefusal: too large, too slow, no JSON, or against the type.
    """
    data = bytearray()
    try:
        with anyio.fail_after(_BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_BODY:
                    raise HttpRefusal(refuse(413, "too_large", f"a body is limited to {MAX_BODY} bytes"))
    except (TimeoutError, ClientDisconnect):
        raise HttpRefusal(refuse(408, "too_slow", f"a body takes {_BODY_S:g} s at most")) from None
    if not data and not kind.__struct_fields__:
        data += b"{}"
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise HttpRefusal(refuse(400, "request_failed", f"the body is no JSON: {str(fault)[:200]}")) from None
    return convert(found, kind, "the body does not fit", strict=True)
