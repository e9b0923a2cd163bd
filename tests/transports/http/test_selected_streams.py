"""Streams of the receipts that tell of failures or of waits, and of a session by the name that people see."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from support.integration.hooking import call_hook
from support.transports.gateway import next_frame, running_gateway


@pytest.mark.parametrize("kind", ["socket", "events"])
async def test_failures_and_waits_are_followed_alone(kind: str) -> None:
    about = {"session_id": "s1", "cwd": "/srv/shop", "prompt_id": "p1"}
    async with running_gateway() as (daemon, address), AsyncExitStack() as stack:
        follow = address.socket if kind == "socket" else address.events
        failed = await stack.enter_async_context(follow("?failed=true"))
        waiting = await stack.enter_async_context(follow("?waiting=true"))
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **about)
        await call_hook(daemon, "claude", hook_event_name="PermissionRequest", tool_name="Bash", tool_input={}, **about)
        await call_hook(daemon, "claude", hook_event_name="StopFailure", error="rate_limit", **about)
        facts = [await first_receipt(one) for one in (failed, waiting)]
        assert [facts[0]["frame_end"], facts[1]["waiting_for"]] == ["failed", "permission"]
        # A short name follows its session; nobody has to name the adapter.
        named = await stack.enter_async_context(follow("?session=shop%231&from=oldest&failed=true"))
        assert (await first_receipt(named))["frame_end"] == "failed"


async def first_receipt(frames: Any) -> Any:
    """Return the facts of the first receipt of a stream."""
    while True:
        frame = await (next_frame(frames) if isinstance(frames, ClientConnection) else anext(frames))
        if frame["type"] == "receipt":
            return frame["payload"]["receipt"]["telemetry_summary"]
