"""Hook calls as a harness makes them: a process each, with a session of its own, so that each can be found again."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import lifebus
from lifebus_transports.messages.reads import Backfill

HARNESS, HOOK = "claude", "UserPromptSubmit"
PROGRAM = Path(lifebus.__file__).with_name("hook.py")
COMMAND = (sys.executable, "-I", "-S", str(PROGRAM), HARNESS, HOOK)
"""The command that a harness's settings have after an installation."""


@dataclass(slots=True)
class HookCalls:
    """Calls that were made, by session, and the seconds that each took as a whole process."""

    sessions: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def make(self, environment: Mapping[str, str]) -> None:
        """Make one call, and wait for its end."""
        session = f"hook-{time.monotonic_ns()}"
        began = time.perf_counter()
        subprocess.run(COMMAND, env=environment, input=payload(session), stdout=subprocess.DEVNULL, check=True)
        self.seconds.append(time.perf_counter() - began)
        self.sessions.append(session)

    def make_until(self, over: Callable[[float], object], environment: Mapping[str, str], pause: float) -> None:
        """Make one call after the other; `over` waits so many seconds and says whether that is all."""
        while not over(pause):
            self.make(environment)

    def recorded(self, runtime_dir: Path) -> int:
        """Return how many of them a broker has recorded."""
        return len(asyncio.run(recorded_sessions(runtime_dir)) & set(self.sessions))


def payload(session: str, padding: int = 1_000) -> bytes:
    """Return what the harness writes to a hook's stdin: JSON without a line break."""
    fields = {"session_id": session, "hook_event_name": HOOK, "cwd": "/", "prompt": "x" * padding}
    return json.dumps(fields, separators=(",", ":")).encode()


async def recorded_sessions(runtime_dir: Path) -> set[str]:
    """Return the sessions of that harness of which the ledger has a receipt."""
    found: set[str] = set()
    async with lifebus.connect("bench", runtime_dir=runtime_dir, timeout=30) as bus:
        after = 0
        while True:
            page = await bus.read(Backfill(after=after, limit=1_024, adapter_id=HARNESS))
            found |= {str(json.loads(row.receipt)["harness_session_id"]) for row in page.rows}
            if page.next >= page.head:
                return found
            after = page.next
