"""The gateway as a server: its sockets, uvicorn in the loop of the broker, a bounded stop."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import structlog
import uvicorn
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_contract.transcripts import TRANSCRIPT_THREAD
from lifebus_transports.http.access.certificates import check_certificate
from lifebus_transports.http.access.checks import Allowed, hosts_of
from lifebus_transports.http.access.gate import Identity
from lifebus_transports.http.access.page_logins import PageLogins
from lifebus_transports.http.access.rbac import Rbac, is_secret
from lifebus_transports.http.access.tickets import Tickets
from lifebus_transports.http.access.tokens import read_secret, take_token
from lifebus_transports.http.application import Gateway, make_application
from lifebus_transports.http.connections import PlainConnection, SocketConnection
from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.http.following.follower import Following
from lifebus_transports.http.following.order import SignalOrder, line_of
from lifebus_transports.http.following.order_log import OrderLog
from lifebus_transports.http.following.pages import Pages
from lifebus_transports.http.following.wakes import Wakes
from lifebus_transports.http.ports import Backend, NumberedSignal
from lifebus_transports.http.settings import LOOPBACK, GatewaySettings, text_of

_HEADER_BYTES: Final = 16_384
_COMMAND_BYTES: Final = 65_536
_STOP_S: Final = 2.0
_BACKLOG: Final = 1_024
_TRIES: Final = 20
_REFUSED: Final = "ASGI callable returned without completing handshake."

_log = structlog.get_logger("lifebus.gateway")


class Serving(Struct, frozen=True):
    """A gateway that listens: its address, its port, and the file with its token."""

    url: str
    port: int
    token_file: Path


@asynccontextmanager
async def serving(
    settings: GatewaySettings,
    token_file: Path,
    *,
    backend: Backend,
    tasks: TaskGroup,
    counters: GatewayCounters,
    environ: Mapping[str, str],
    last_port: int = 0,
) -> AsyncGenerator[Serving]:
    """Serve within the block, in tasks of the group; `environ` may hold the secrets of roles.

    Where the settings leave the port open, `last_port` is taken if it is free: a page that is open finds it again.

    Raises:
        LifebusError: `gateway_secret`, `gateway_certificate`, `gateway_address`: what it says cannot be used.
    """
    token = take_token(token_file)
    rbac = partial(_rbac_of, settings, environ)
    _require_secret(settings, rbac())
    # Before anything listens: a client must not find an address that is given up again.
    _require_certificate(settings)
    sockets = _listen_again(settings.host, settings.port, last_port)
    port: int = sockets[0].getsockname()[1]
    order = SignalOrder(backend.positions)
    pages = Pages(backend.calls, tasks, order, backend.order.epoch)
    wakes = Wakes(pages.forget, asyncio.get_running_loop())
    await _keep_order(backend, OrderLog(order, backend.order, wakes.order_changed), tasks)
    backend.recorded.receipts(wakes.receipts_recorded)
    backend.recorded.signals(wakes.signals_recorded)
    following = Following(backend.calls, pages, wakes, counters, send_s=settings.send_timeout_ms / 1000)
    gateway = _gateway_of(settings, backend, following, _identity_of(settings, token, port, rbac))
    server = _Server(_config(settings, make_application(gateway)))
    tasks.start_soon(server.serve, sockets)
    try:
        yield Serving(_url_of(settings, port), port, token_file)
    finally:
        wakes.close()
        following.closing.set()
        # uvicorn sees it within a tenth of a second, says farewell, and then cancels who is left.
        server.should_exit = True
        with anyio.move_on_after(_STOP_S, shield=True):
            await server.ended.wait()


def _gateway_of(settings: GatewaySettings, backend: Backend, following: Following, identity: Identity) -> Gateway:
    """Return what the application is made of."""
    return Gateway(
        calls=backend.calls,
        following=following,
        identity=identity,
        is_secure=settings.has_tls,
        compression=settings.compression,
        kind_of=backend.kind_of,
        has_queue=backend.has_queue,
        metrics=backend.metrics,
        reports=backend.reports,
    )


async def _keep_order(backend: Backend, log: OrderLog, tasks: TaskGroup) -> None:
    """Keep the order of all signals, which goes on with those that come."""
    await log.load()

    def is_shown(adapter: str, thread: str) -> bool:
        # Of a worker of the broker's own only who follows exactly its transcript learns.
        session = thread.removeprefix(TRANSCRIPT_THREAD)
        return line_of(adapter, thread) != "transcripts" or backend.kind_of(session) != "system"

    def recorded(adapter: str, thread: str, signals: Sequence[NumberedSignal]) -> None:
        if is_shown(adapter, thread):
            log.note(adapter, thread, signals[-1].sequence)

    async def take() -> None:
        for adapter, thread, floor, head in await backend.recorded.kept():
            if is_shown(adapter, thread):
                log.note(adapter, thread, head, floor=floor)

    await take()
    backend.recorded.signals(recorded)
    # Once more, for what came while the first look was taken.
    await take()
    tasks.start_soon(log.run)


def _identity_of(settings: GatewaySettings, token: str, port: int, rbac: Callable[[], Rbac]) -> Identity:
    """Return what every request is compared with."""
    return Identity(
        token=token,
        allowed=Allowed(
            hosts_of(port, tls=settings.has_tls, further=settings.host_names),
            frozenset(settings.origin_names),
            "https" if settings.has_tls else "http",
        ),
        is_loopback=settings.is_loopback,
        rbac=rbac,
        tickets=Tickets(time.monotonic, os.urandom),
        logins=PageLogins(token, lambda: time.time_ns() // 1_000_000, os.urandom),
    )


def _require_secret(settings: GatewaySettings, rbac: Rbac) -> None:
    """Check that the secret of the mode of roles is there.

    Raises:
        LifebusError: `gateway_secret`.
    """
    file = {"header": settings.rbac_header_secret_file, "jwt": settings.rbac_jwt_secret_file}.get(rbac.mode)
    if file is not None and (path := _path_of(file)) is not None:
        read_secret(path)
    secret = {"header": rbac.header_secret, "jwt": rbac.jwt_secret}.get(rbac.mode)
    if rbac.mode != "disabled" and not is_secret(secret):
        raise LifebusError(
            f"`gateway.rbac_mode` is {rbac.mode}, and its secret is not there: a file of 32 bytes or more",
            code="gateway_secret",
        )


def _require_certificate(settings: GatewaySettings) -> None:
    """Check that clients can be shown the certificate of the settings, if there is one.

    Raises:
        LifebusError: `gateway_certificate`.
    """
    certificate, key = _path_of(settings.tls_cert), _path_of(settings.tls_key)
    if certificate is not None and key is not None:
        check_certificate(certificate, key)


def _url_of(settings: GatewaySettings, port: int) -> str:
    host = "localhost" if settings.host == LOOPBACK else settings.host
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.has_tls else 'http'}://{bracketed}:{port}"


class _Server(uvicorn.Server):
    """A server that leaves signals to the broker, and says when it has ended."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = anyio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none: the broker has handlers of its own."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`."""
        try:
            await super().serve(sockets)
        finally:
            self.ended.set()


def _config(settings: GatewaySettings, application: Any) -> uvicorn.Config:
    _forward_log()
    bounds = {"max_connections": settings.max_connections, "read_s": 2 * settings.send_timeout_ms / 1000}
    protocol = type("Connection", (PlainConnection,), bounds)
    config = uvicorn.Config(
        application,
        http=protocol,
        ws=SocketConnection,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        ws_max_size=_COMMAND_BYTES,
        ws_per_message_deflate=settings.compression,
        timeout_graceful_shutdown=1,
        ssl_certfile=_path_of(settings.tls_cert),
        ssl_keyfile=_path_of(settings.tls_key),
    )
    config.load()
    return config


def _path_of(value: str) -> Path | None:
    return Path(value).expanduser() if text_of(value) else None


def _listen_again(host: str, port: int, last_port: int) -> list[socket.socket]:
    """Return sockets that listen on an address, where the port is left open on that of the last time.

    Raises:
        LifebusError: `gateway_address`.
    """
    if not port and last_port:
        with contextlib.suppress(LifebusError):
            return _listen(host, last_port)
    return _listen(host, port)


def _listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on an address; for loopback on both kinds, with one port.

    Raises:
        LifebusError: `gateway_address`.
    """
    addresses = ("127.0.0.1", "::1") if host == LOOPBACK else (host,)
    for _ in range(_TRIES):
        with contextlib.ExitStack() as stack:
            sockets: list[socket.socket] = []
            try:
                for address in addresses:
                    chosen = sockets[0].getsockname()[1] if sockets else port
                    sockets.append(stack.enter_context(_bound(address, chosen)))
            except OSError as fault:
                # A machine without IPv6 has the one address alone.
                if sockets and fault.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    stack.pop_all()
                    return sockets
                # The port that was free for one address may be taken for the other: another one is tried.
                if port or fault.errno != errno.EADDRINUSE:
                    raise LifebusError(
                        f"cannot listen on {host}, port {port}: {fault.strerror}", code="gateway_address"
                    ) from fault
                continue
            stack.pop_all()
            return sockets
    raise LifebusError(f"found no port that is free on {' and '.join(addresses)}", code="gateway_address")


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((address, port))
        # At once, so that nobody who read the address is refused while the server is still starting.
        found.listen(_BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def _rbac_of(settings: GatewaySettings, environ: Mapping[str, str]) -> Rbac:
    """Return what roles are compared with; the secrets as their files are now, so that they can be changed."""
    return Rbac(
        mode=settings.rbac_mode,
        header_secret=_secret_of(settings.rbac_header_secret_file, environ.get("AGENT_EXTENSION_RBAC_HEADER_SECRET")),
        jwt_secret=_secret_of(settings.rbac_jwt_secret_file, environ.get("AGENT_EXTENSION_RBAC_JWT_SECRET")),
        jwt_algorithm=settings.rbac_jwt_algorithm.upper(),
        jwt_issuer=text_of(settings.rbac_jwt_issuer),
        jwt_audience=text_of(settings.rbac_jwt_audience),
        jwt_role_claim=settings.rbac_jwt_role_claim,
        jwt_actor_claim=settings.rbac_jwt_actor_claim,
    )


def _secret_of(file: str, variable: str | None) -> str | None:
    if not text_of(file):
        return variable
    try:
        return read_secret(Path(file).expanduser())
    except LifebusError as fault:
        _log.warning("gateway_secret_unusable", detail=fault.detail)
        return None


class _Forward(logging.Handler):
    """Puts what uvicorn logs into the broker's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; tracebacks stay out, which may quote what a request said."""
        # It says so of every upgrade that is refused, which the access log has already.
        if record.levelno >= logging.WARNING and record.getMessage() != _REFUSED:
            _log.warning("gateway_server", detail=record.getMessage()[:256])


def _forward_log() -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    # Below, uvicorn logs addresses with their query, which may hold a ticket.
    logger.setLevel(logging.WARNING)
    if not any(isinstance(handler, _Forward) for handler in logger.handlers):
        logger.addHandler(_Forward())
