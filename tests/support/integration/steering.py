"""An app-server behind `lifebus app-server tee`, its client, and a broker that steers it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from lifebus_supervisor.daemon.composition import Daemon
from support.clients.proxy_box import ProxyBox
from support.parts import sessions_of
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import running_bus, short_directory, until_answered


def lines_of(kept: Path) -> list[dict[str, Any]]:
    """Return what a server has read, line by line; the last one may still be written."""
    return [json.loads(line) for line in kept.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


SERVER = SUPPORT / "clients/steered_app_server.py"


@dataclass
class Client:
    """A client behind `lifebus app-server tee`: what it got, line by line."""

    process: "asyncio.subprocess.Process"
    got: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def until(self, method: str) -> dict[str, Any]:
        """Read on until a message of this name."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, self.got
                self.got.append(json.loads(line))
                if self.got[-1].get("method") == method:
                    return self.got[-1]

    async def begin(self, text: str, number: int = 3) -> None:
        await self.say(
            id=number, method="turn/start", params={"threadId": "t1", "input": [{"type": "text", "text": text}]}
        )
        await self.until("turn/started")


@dataclass
class Scene:
    """The broker, a client, and the file of all that the server has read."""

    daemon: Daemon
    client: Client
    kept: Path
    box: ProxyBox
    brokers: AsyncExitStack
    settings: dict[str, Any]

    async def broker_again(self) -> Daemon:
        """Stop the broker, and start one that knows nothing but what is durable."""
        await self.brokers.aclose()
        self.daemon = await self.brokers.enter_async_context(
            running_bus(whole=True, directory=self.box.base, **self.settings)
        )
        return self.daemon

    def read_by_server(self) -> list[dict[str, Any]]:
        return lines_of(self.kept)

    async def pending(self, name: str = "u1:0") -> PendingApproval:
        """The approval, once the observer has seen it."""
        async with asyncio.timeout(PATIENCE_S):
            found = await until_answered(
                lambda: sessions_of(self.daemon).steering.approval(name), lambda one: one is not None
            )
        assert found is not None
        return found

    async def steered(self, turn: str, text: str) -> ControlOutcome:
        """Steer, as soon as the observer has learnt of the thread."""
        async with asyncio.timeout(PATIENCE_S):
            return await until_answered(
                lambda: sessions_of(self.daemon).steering.steer("t1", turn, text, None),
                lambda one: one.state is not ControlState.UNREACHABLE,
            )


@asynccontextmanager
async def app_server(base: Path, **variables: str) -> AsyncGenerator[tuple[Client, Path, ProxyBox]]:
    """A client of an app-server behind a proxy that reports to whatever broker there is, and the file of its lines."""
    box, kept = ProxyBox(base, extra=variables), base / "kept"
    words = box.words((sys.executable, "-I", "-S", "-u", str(SERVER), str(kept)))
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, env=box.env, stdin=pipe, stdout=pipe)
    client = Client(process)
    try:
        await client.say(id=1, method="initialize", params={})
        await client.say(id=2, method="thread/start", params={})
        await client.until("thread/started")
        yield client, kept, box
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def scene(**settings: Any) -> AsyncGenerator[Scene]:
    """An app-server, its client, and a broker in this process."""
    with short_directory() as base:
        async with AsyncExitStack() as brokers:
            daemon = await brokers.enter_async_context(running_bus(whole=True, directory=base, **settings))
            async with app_server(base) as (client, kept, box):
                yield Scene(daemon, client, kept, box, brokers, settings)
