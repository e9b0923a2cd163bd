"""The real `codex app-server` on stdio, and an independent client of it: JSON lines, every byte kept."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psutil
import pytest

import lifebus
from lifebus.live.model.conversation import MODEL
from lifebus.live.model.server import FakeModel, fake_model
from lifebus.live.sandbox import Sandbox, sandbox
from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.reader import Observed
from lifebus_contract import Receipt
from support.broker_process import BrokerProcess
from support.e2e.harness_run import broker_in
from support.e2e.installation import lifebus as run_lifebus
from support.e2e.programs import Package, cache, find, is_installed
from support.patience import PATIENCE_S

PACKAGES: Final = (Package("pypi", "openai-codex-cli-bin", "0.163.0"),)
WINDOW: Final = 20_000
SETTINGS: Final = ".codex/config.toml"

LIFEBUS: Final = (sys.executable, "-m", "lifebus")

Message = dict[str, Any]


def program() -> str:
    """Return the installed program."""
    return str(find(PACKAGES[0], "lib/python*/site-packages/codex_cli_bin/bin/codex"))


@dataclass
class Client:
    """A client of an app-server: what it sent and got, to the byte, and what a reader makes of both."""

    process: "asyncio.subprocess.Process"
    sent: bytearray = field(default_factory=bytearray)
    got: bytearray = field(default_factory=bytearray)
    messages: list[Message] = field(default_factory=list)
    observed: list[Observed] = field(default_factory=list)
    reader: AppServerStream = field(default_factory=AppServerStream)
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)
    _ids: int = 0

    async def open(self) -> None:
        """Say hello."""
        about = {"name": "e2e", "title": "e2e", "version": "0"}
        await self.ask("initialize", clientInfo=about, capabilities={"experimentalApi": True})
        await self.send({"method": "initialized"})

    async def start(self, **params: Any) -> str:
        """Start a thread and return its id."""
        answer = await self.ask("thread/start", **{"approvalPolicy": "never", "sandbox": "danger-full-access"} | params)
        return str(answer["thread"]["id"])

    async def turn(self, thread: str, text: str) -> Message:
        """Take a whole turn and return its end."""
        begun = await self.begin(thread, text)
        return await self.ended(begun)

    async def begin(self, thread: str, text: str) -> str:
        """Begin a turn and return its id."""
        answer = await self.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
        return str(answer["turn"]["id"])

    async def ended(self, turn: str) -> Message:
        """Wait for a turn's end and return it."""
        answer = await self.wait(lambda one: one.get("method") == "turn/completed" and _turn(one)["id"] == turn)
        return _turn(answer)

    async def ask(self, method: str, **params: Any) -> Message:
        """Send a request and return its result."""
        self._ids += 1
        number = self._ids
        await self.send({"id": number, "method": method, "params": params})
        answer = await self.wait(lambda one: one.get("id") == number and "method" not in one)
        assert "result" in answer, answer
        return dict(answer["result"])

    async def send(self, message: Message) -> None:
        data = json.dumps(message).encode() + b"\n"
        self.sent += data
        self.observed += self.reader.feed("in", data, time.time_ns() // 1_000_000)
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def wait(self, condition: Callable[[Message], bool]) -> Message:
        """Wait for a message, which may be there already."""
        async with asyncio.timeout(PATIENCE_S), self._more:
            while True:
                for message in self.messages:
                    if condition(message):
                        return message
                await self._more.wait()

    async def listen(self) -> None:
        """Take in all that the server says."""
        assert self.process.stdout is not None
        rest = b""
        while data := await self.process.stdout.read(65_536):
            self.got += data
            self.observed += self.reader.feed("out", data, time.time_ns() // 1_000_000)
            *lines, rest = (rest + data).split(b"\n")
            async with self._more:
                self.messages += [json.loads(line) for line in lines]
                self._more.notify_all()

    async def close(self) -> int:
        """Close the server's stdin and return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def kill_server(self) -> None:
        """Kill the app-server itself, wherever it stands below us."""
        for process in [psutil.Process(self.process.pid), *self.family()]:
            with suppress(psutil.NoSuchProcess):
                if "codex" in process.name():
                    process.send_signal(signal.SIGKILL)

    @property
    def methods(self) -> list[str]:
        """What the server told and asked, in order."""
        return [message["method"] for message in self.messages if "method" in message]


def _turn(message: Message) -> Message:
    found: Message = message["params"]["turn"]
    return found


@dataclass(frozen=True)
class Place:
    """Where app-servers are tried: a home, a model, and where wished a broker with a client."""

    box: Sandbox
    model: FakeModel
    broker: BrokerProcess | None = None
    bus: lifebus.Bus | None = None

    @asynccontextmanager
    async def client(self, *before: str, shell: str = "") -> AsyncIterator[Client]:
        """A client of a server behind a command; `shell` stands for another way to start the server."""
        command = [*before, *(["sh", "-c", shell] if shell else [program(), "app-server"])]
        with (self.box.tmp / "err").open("ab") as err:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.box.project,
                env=self.box.environment({"LOOPBACK_KEY": "dummy", "CODEX": program()}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                start_new_session=True,
            )
        client = Client(process)
        listening = asyncio.ensure_future(client.listen())
        try:
            await client.open()
            yield client
        finally:
            family = client.family()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for one in family:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            await process.wait()
            await listening

    @asynccontextmanager
    async def broker_again(self) -> AsyncIterator[None]:
        """A new broker in the place of the one that has gone."""
        async with broker_in(self.box):
            yield

    def add_hooks(self) -> None:
        """Install the hooks of lifebus; Codex asks its user whether to trust them, and until then runs none."""
        (self.box.bin / "codex").symlink_to(program())
        installed = run_lifebus(self.box, "hooks", "install", "codex", "--yes", "--skip-unknown")
        assert installed.code == 0, installed

    def remove_hooks(self) -> None:
        """Remove the hooks of lifebus."""
        removed = run_lifebus(self.box, "hooks", "remove", "codex", "--yes")
        assert removed.code == 0, removed

    async def tick(self) -> None:
        """Have the broker supervise once."""
        assert self.bus is not None
        await self.bus.tick()

    async def install_hooks(self) -> None:
        """Install the hooks of lifebus, and trust them as their user does."""
        self.add_hooks()
        async with self.client() as client:
            listed = await client.ask("hooks/list", cwds=[str(self.box.project)])
        hooks = [hook for entry in listed["data"] for hook in entry["hooks"]]
        with (self.box.home / SETTINGS).open("a") as settings:
            settings.writelines(
                f'\n[hooks.state."{one["key"]}"]\ntrusted_hash = "{one["currentHash"]}"\n' for one in hooks
            )

    async def receipts_until(self, condition: Callable[[Receipt], bool]) -> list[Receipt]:
        """Return every receipt so far, once one of them fulfils the condition."""
        assert self.bus is not None
        found: list[Receipt] = []
        async with asyncio.timeout(PATIENCE_S):
            async for item in self.bus.receipts(since="start"):
                if isinstance(item, Receipt):
                    found.append(item)
                    if condition(item):
                        return found
        raise AssertionError("the receipts ended")


@asynccontextmanager
async def place(*, with_broker: bool = True) -> AsyncIterator[Place]:
    """A place for one test; the test is skipped where the program is not installed."""
    if not is_installed(PACKAGES[0]):
        pytest.skip(f"{PACKAGES[0]} not in {cache()}; `make e2e` installs it")
    with sandbox() as box, fake_model(WINDOW) as model:
        _furnish(box, model.url)
        if not with_broker:
            yield Place(box, model)
            return
        async with broker_in(box) as broker, lifebus.connect("e2e", runtime_dir=box.runtime_dir) as bus:
            yield Place(box, model, broker, bus)


def _furnish(box: Sandbox, model_url: str) -> None:
    settings = box.home / SETTINGS
    settings.parent.mkdir()
    settings.write_text(
        f"""\
model = "{MODEL}"
model_provider = "loopback"
model_context_window = {WINDOW}
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loopback]
name = "loopback"
base_url = "{model_url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
    )


def events_of(receipts: Sequence[Receipt]) -> list[str]:
    """Return what happened, in order: the event, and how a frame or session ended or what a person was asked."""
    return [
        " ".join(
            [
                receipt.event.value,
                *(str(receipt.telemetry_summary[key]) for key in _SHOWN if key in receipt.telemetry_summary),
            ]
        )
        for receipt in receipts
        if receipt.event != "supervisor.tick" or "operator" in receipt.telemetry_summary
    ]


_SHOWN: Final = ("thread", "frame_end", "session_end", "operator", "context_pressure")
