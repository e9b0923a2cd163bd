"""A broker that serves an emission and a hook in a process of its own; prints how many receipts, and what it loaded."""

import sys
from pathlib import Path

import anyio

from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookCall
from lifebus_contract import validate
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.daemon.logging import configure
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_transports.messages.verbs import VERBS

REQUEST = {
    "schema_version": "lifeloop.v0.2",
    "event": "session.started",
    "event_id": "evt_1",
    "adapter_version": "0.1.0",
    "invocation_id": "inv_1",
    "integration_mode": "native_hook",
    "adapter_id": "codex",
    "harness_session_id": "s",
}
PROMPT = b'{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "p", "cwd": "/w"}'


class Peer:
    """Who emits."""

    identity, is_operator = "test", True

    def send(self, number: int, verb: str, body: object) -> bool:
        """Take no messages."""
        return False


async def serve(home: Path) -> None:
    """Start a broker in a directory, use it, and print."""
    (home / "run").mkdir(mode=0o700)
    places = {"runtime_dir": home / "run", "state_dir": home / "state", "log.level": "error"}
    settings, _ = load(places, config_path=None)
    configure(settings.log)
    async with running(settings) as daemon:
        body = {"client_id": "test", "emissions": [{"request": REQUEST}]}
        await daemon.api.call(Peer(), "emit", validate(body, VERBS["emit"].body))
        call = HookCall(
            call_id="hook-18c2f3a4b5c-1-1", adapter_id="claude", hook="UserPromptSubmit", cwd="/w", env={}, stdin=PROMPT
        )
        await HookCalls(daemon.bus, ADAPTERS, 1.0, supervision=daemon.supervisor).handle(call)
        sys.stdout.write("\n".join((str(daemon.bus.ledger.head), *sys.modules)))


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]))
