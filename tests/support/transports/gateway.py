"""A broker with a gateway, and the clients that tests use: plain HTTP, WebSocket and server-sent events."""

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect

import lifebus
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.http.settings import GatewaySettings
from support.integration.observing import EVENT
from support.parts import running_whole
from support.patience import PATIENCE_S
from support.running import settings_in, short_directory


class Address(Struct, frozen=True):
    """Where a gateway is, and its token, as a client on this machine finds both."""

    url: str
    token: str

    @classmethod
    def of(cls, runtime_dir: Path) -> "Address":
        found = json.loads((runtime_dir / "gateway.json").read_bytes())
        return cls(found["url"], Path(found["tokenFile"]).read_text().strip())

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self, headers: Mapping[str, str] | None = None, **options: Any) -> httpx.AsyncClient:
        """A client with the token, or with other headers."""
        return httpx.AsyncClient(
            base_url=self.url, headers=self.bearer if headers is None else headers, timeout=PATIENCE_S, **options
        )

    @asynccontextmanager
    async def socket(
        self, query: str = "", headers: Mapping[str, str] | None = None, **options: Any
    ) -> AsyncGenerator[ClientConnection]:
        """A WebSocket on the stream."""
        scheme, host = ("wss", "localhost") if self.url.startswith("https:") else ("ws", "127.0.0.1")
        address = f"{scheme}://{host}:{self.port}/api/stream{query}"
        options = {"compression": None, "open_timeout": PATIENCE_S, "proxy": None, **options}
        async with connect(address, additional_headers=self.bearer if headers is None else headers, **options) as found:
            yield found

    @asynccontextmanager
    async def events(self, query: str = "", last: str | None = None) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
        """The frames of server-sent events."""
        headers = {} if last is None else {"Last-Event-ID": last}
        async with self.client() as client, client.stream("GET", f"/api/events{query}", headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield _frames(answer)


async def _frames(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Read events as a browser does: an event ends with an empty line, `data` lines are joined."""
    data: list[str] = []
    last = ""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "data":
            data.append(value)
        elif name == "id":
            last = value
        elif not line and data:
            frame = json.loads("\n".join(data))
            assert frame["id"] in {last, None}
            yield frame
            data = []


async def next_frame(socket: ClientConnection) -> Any:
    """The next message of a WebSocket that holds one frame."""
    with anyio.fail_after(PATIENCE_S):
        return json.loads(await socket.recv())


@asynccontextmanager
async def running_gateway(
    directory: Path | None = None,
    *,
    retention: RetentionSettings | None = None,
    queue: QueueSettings | None = None,
    whole: bool = False,
    **gateway: Any,
) -> AsyncGenerator[tuple[Daemon, Address]]:
    """A broker in this process with a gateway on a free port; with `whole`, all its parts are made at once."""
    with short_directory() if directory is None else nullcontext(directory) as home:
        settings = msgspec.structs.replace(
            settings_in(home, retention=retention),
            gateway=GatewaySettings(enabled=True, **gateway),
            queue=queue or QueueSettings(),
        )
        async with running_whole(settings) if whole else running(settings) as daemon:
            yield daemon, Address.of(settings.runtime_dir)


async def emit(bus: lifebus.Bus, session: str, count: int = 1) -> None:
    """Record receipts of a session."""
    for _ in range(count):
        await bus.emit(lifebus.make_request("session.started", "codex", session=session))


async def emit_at_a_rate(runtime_dir: Path, count: int, rate: int) -> None:
    """Record so many receipts, so many a second, or fewer on a machine that is slower."""
    batch = rate // 50
    async with lifebus.connect("test", runtime_dir=runtime_dir, timeout=PATIENCE_S) as bus:
        due = anyio.current_time()
        for _ in range(count // batch):
            await bus.emit([lifebus.make_request("session.started", "codex", session=f"s{n}") for n in range(batch)])
            due += batch / rate
            await anyio.sleep_until(due)


@contextmanager
def plain_connection(address: Address, target: str, *, upgrade: bool) -> Generator[socket.socket]:
    """A client that asks for a stream and never reads, with a small buffer."""
    lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{address.port}", f"Authorization: Bearer {address.token}"]
    if upgrade:
        lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        found.connect(("127.0.0.1", address.port))
        found.sendall("\r\n".join([*lines, "", ""]).encode())
        yield found


async def sequences_of(address: Address, topic: str, count: int) -> list[int]:
    """Follow so many signals; come back as a browser does where this machine was too slow for the gateway."""
    found, last = list[int](), None
    with anyio.fail_after(PATIENCE_S):
        while len(found) < count:
            with suppress(httpx.RemoteProtocolError, httpx.ReadError):
                async with address.events(topic, last) as events:
                    async for frame in events:
                        last = frame["id"]
                        found += [frame["payload"]["sequence"]] if frame["type"] == EVENT else []
                        if len(found) >= count:
                            break
    return found
