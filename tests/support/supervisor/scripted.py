"""A bus with a renewal profile of Codex, and a scripted client that records what it was asked."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs, to_builtins

from lifebus_adapters import HookAnswer
from lifebus_broker.ports import Ledger, Query
from lifebus_contract import AdapterManifest, Receipt, decode_json, validate
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.renewal.composing import start_renewals
from lifebus_supervisor.renewal.flow import RenewalFlow
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_transports.processes.outcomes import Failure, Finished
from lifebus_transports.processes.spec import CommandSpec
from support.adapters.hook_bus import HookBus, hook_bus
from support.broker_process import until
from support.supervisor.continuations import states

SECRET = "cont-4711-Aufpassen-geheim"
PROFILE = RenewalSettings(
    profile="codex-renewal",
    adapter="codex",
    client_id="example",
    recommend=("example", "status"),
    prepare=("example", "prepare"),
    consume=("example", "start"),
)


CONFIGURED = """
[[renewals]]
profile = "codex-renewal"
adapter = "codex"
client_id = "example"
recommend = ["example", "status"]
prepare = ["example", "prepare"]
consume = ["example", "start"]
"""
"""The same in a configuration file."""


_CALLS = itertools.count(1)


class ScriptedClient:
    """A client: gives the answers of the script, and records every question."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.specs: list[CommandSpec] = []
        self.answers: dict[str, Any] = {
            "recommend": {"action": "renew"},
            "prepare": {"token": SECRET, "thread": "t-1"},
            "consume": {"thread": "t-1"},
        }
        self.fails: dict[str, Finished] = {}
        self.holds: dict[str, anyio.Event] = {}

    async def run(self, spec: CommandSpec, stdin: bytes, seconds: float) -> Finished:
        """Be the runner of commands."""
        question = json.loads(stdin)
        self.asked.append(question)
        self.specs.append(spec)
        step = str(question["step"])
        if step in self.holds:
            with anyio.move_on_after(seconds):
                await self.holds[step].wait()
        if step in self.fails:
            return self.fails[step]
        answer = self.answers[step]
        return Finished(stdout=answer if isinstance(answer, bytes) else json.dumps(answer).encode(), exit_code=0)

    @property
    def steps(self) -> list[str]:
        return [question["step"] for question in self.asked]


class Renewing:
    """Hook calls of Codex, and what the client's receipts say of them."""

    def __init__(self, bus: HookBus, client: ScriptedClient, flow: RenewalFlow) -> None:
        self.bus = bus
        self.client = client
        self.flow = flow

    async def stop(self, session: str = "s1", cwd: str = "/work") -> Receipt:
        """End a turn, and return the client's receipt of it."""
        payload = {"hook_event_name": "Stop", "session_id": session, "turn_id": f"t{next(_CALLS)}", "cwd": cwd}
        return await self.receipt_of(payload)

    async def start(self, session: str = "s2", cwd: str = "/work") -> Receipt:
        """Start a session, and return the client's receipt of it."""
        payload = {"hook_event_name": "SessionStart", "session_id": session, "source": "startup", "cwd": cwd}
        return await self.receipt_of(payload)

    async def call(self, payload: dict[str, Any]) -> HookAnswer:
        """Call a hook; nobody waits for the client."""
        _, answer = await self.bus.hook("codex", payload, call_id=f"call-{next(_CALLS)}")
        return answer

    @property
    def published(self) -> list[Receipt]:
        """Every receipt of the client so far."""
        return [one for one in self.bus.published if one.client_id == self.flow.settings.client_id]

    async def receipts(self) -> list[Receipt]:
        """Return every receipt of the client in the ledger."""
        page = await self.bus.bus.ledger.read(Query(limit=1_024))
        found = [decode_json(stored.receipt, Receipt) for stored in page.stored]
        return [one for one in found if one.client_id == self.flow.settings.client_id]

    @property
    def states(self) -> list[str]:
        return [state for _, state in states(self.flow.store)]

    def claim_reset(self, **reset: str) -> None:
        """Let the adapter claim other ways to a reset."""
        registry = self.bus.bus.registry
        codex = registry.require("codex")
        manifest = to_builtins(codex.manifest)
        manifest["renewal"]["reset"] |= reset
        changed = structs.replace(codex, manifest=validate(manifest, AdapterManifest))
        registry.replace([changed if one is codex else one for one in registry.all()])

    async def receipt_of(self, payload: dict[str, Any]) -> Receipt:
        """Call a hook, and return the client's receipt of it."""
        recorded, answer = await self.bus.hook("codex", payload, call_id=f"call-{next(_CALLS)}")
        assert answer.stdout == b""
        (invocation,) = {one.invocation_id for one in recorded if one.client_id == "lifebus.hook"}

        def own() -> list[Receipt]:
            return [one for one in self.published if one.invocation_id == invocation]

        await until(lambda: bool(own()))
        return own()[0]


@asynccontextmanager
async def renewing(
    directory: Path, client: ScriptedClient | None = None, ledger: Ledger | None = None, **changes: Any
) -> AsyncIterator[Renewing]:
    """A bus whose Codex sessions are renewed; unfinished renewals in the directory are resumed.

    With a ledger of the test's own, `published` stays empty, and `receipts` has what is in the ledger.
    """
    profile = structs.replace(PROFILE, **changes)
    settings = Settings(runtime_dir=directory / "run", state_dir=directory / "state", renewals=(profile,))
    client = client or ScriptedClient()
    async with hook_bus(ledger) as bus, anyio.create_task_group() as tasks:
        bus.bus.registry.replace(configured_adapters(settings).all())
        (flow,) = await start_renewals(settings, bus.bus, client.run, tasks)
        yield Renewing(bus, client, flow)
        tasks.cancel_scope.cancel()


def failing(code: int = 1, stderr: str = "") -> Finished:
    return Finished(exit_code=code, stderr=stderr, failure=Failure.EXIT_CODE)


def late() -> Finished:
    return Finished(failure=Failure.DEADLINE)
