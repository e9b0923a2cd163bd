"""The list of sessions over the gateway: which project, what happened, and who waits for a person."""

import time
from typing import Any

from lifebus_supervisor.daemon.composition import Daemon
from support.integration.hooking import call_hook
from support.transports.gateway import running_gateway
from support.transports.schemas import fits


async def worked_in(daemon: Daemon, session: str, **more: Any) -> None:
    """A session of which there is something to say, and that waits."""
    about = {"session_id": session, "cwd": "/srv/shop", **more}
    turn = {**about, "prompt_id": "p1"}
    await call_hook(daemon, "claude", hook_event_name="SessionStart", source="startup", **about)
    await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **turn)
    await call_hook(daemon, "claude", hook_event_name="PostCompact", trigger="manual", **turn)
    await call_hook(
        daemon, "claude", hook_event_name="PermissionRequest", tool_name="Bash", tool_input={"command": "x"}, **turn
    )


async def test_a_session_says_its_project_what_happened_and_for_whom_it_waits() -> None:
    before = time.time_ns() // 1_000_000
    async with running_gateway() as (daemon, address), address.client() as client:
        await worked_in(daemon, "s1")
        await call_hook(
            daemon, "claude", hook_event_name="SessionStart", source="startup", session_id="s2", cwd="/srv/shop"
        )
        both = fits(await client.get("/api/sessions"), "get", "/api/sessions")["data"]
        (found,) = fits(await client.get("/api/sessions", params={"waiting": "true"}), "get", "/api/sessions")["data"]
    assert [(one["name"], one["waiting"] != []) for one in both] == [("shop#1", True), ("shop#2", False)]
    (wait,) = found.pop("waiting")
    since, began, last = wait.pop("sinceMs"), found.pop("startedAtMs"), found.pop("lastAtMs")
    assert wait == {
        "waitingFor": "permission", "kind": "Bash", "frameId": "p1", "nested": False, "requestId": None,
    }  # fmt: skip
    assert before <= since <= time.time_ns() // 1_000_000
    # Receipts record whole seconds.
    assert before - 1_000 < began <= last <= time.time_ns() // 1_000_000
    assert began % 1_000 == last % 1_000 == 0
    assert found == {
        "adapterId": "claude", "sessionId": "s1", "sequence": 6, "receipts": 6, "lastEvent": "supervisor.tick",
        "lastStatus": "observed", "ended": False, "openFrames": ["p1"], "name": "shop#1", "cwd": "shop",
        "gitBranch": None, "title": None, "turns": 1, "subagents": 0, "compactions": 1, "failures": 0,
        "pressure": None, "usedPct": None, "usedTokens": None,
    }  # fmt: skip
