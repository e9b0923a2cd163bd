"""Makes the pictures of the dashboard in docs/pictures: `PYTHONPATH=tests python tests/support/transports/pictures.py`.

A broker of its own, on which three sessions work for half a minute; the same from run to run but for times.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio

import lifebus
from lifebus_supervisor.daemon.composition import Daemon
from support.integration.hooking import call_hook
from support.integration.serving import serving
from support.paths import REPOSITORY
from support.transports.browser import Page, open_page
from support.transports.dashboards import client_of, enter
from support.transports.gateway import running_gateway

FOLDER: Final = REPOSITORY / "docs/pictures"
PICTURES: Final = (
    ("dashboard-now-light-1440", "now", 1440, 620, "light"),
    ("dashboard-session-dark-1440", "session/claude/shop", 1440, 860, "dark"),
    ("dashboard-now-dark-380", "now", 380, 760, "dark"),
    ("dashboard-session-light-380", "session/claude/shop", 380, 760, "light"),
)
"""Name, screen, width, height and colours of each."""

_BEAT_S: Final = 0.6  # the pace of the sessions; a person who looks sees why this is no test


async def note(_: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
    """A client that gives each turn a note."""
    payload = lifebus.make_payload("notes", "Ask before you push.")
    return lifebus.CallbackResponse.ok(lifebus.ReceiptStatus.DELIVERED, payload)


async def call(daemon: Daemon, adapter: str, hook: str, **about: Any) -> None:
    """One hook call, and a pause."""
    await call_hook(daemon, adapter, hook_event_name=hook, **about)
    await anyio.sleep(_BEAT_S)


async def measure(bus: lifebus.Bus, session: str, used: int) -> None:
    """One measure of how full the context is, and a pause."""
    level = "low" if used < 60 else "moderate" if used < 80 else "high"
    facts: dict[str, str | int | bool | None] = {
        "context_pressure": level,
        "context_used_pct": used,
        "context_used_tokens": used * 2_000,
    }
    request = lifebus.make_request("context.pressure_observed", "claude", session=session)
    await bus.emit(lifebus.Emission(request=request, telemetry=facts))
    await anyio.sleep(_BEAT_S)


async def shop(daemon: Daemon, bus: lifebus.Bus) -> None:
    """A session with two turns and a sub-agent, which was compacted and now waits for a person."""
    about: dict[str, Any] = {"session_id": "shop", "cwd": "/srv/shop"}
    await call(daemon, "claude", "SessionStart", source="startup", **about)
    for turn, measures in (("p1", (31, 52, 68)), ("p2", (74, 86))):
        await call(daemon, "claude", "UserPromptSubmit", prompt="…", prompt_id=turn, **about)
        for used in measures:
            await measure(bus, "shop", used)
        nested: dict[str, Any] = {"agent_id": f"a-{turn}", "agent_type": "reviewer", "prompt_id": turn, **about}
        await call(daemon, "claude", "SubagentStart", **nested)
        await anyio.sleep(3 * _BEAT_S)
        await call(daemon, "claude", "SubagentStop", **nested)
        await call(daemon, "claude", "Stop", prompt_id=turn, **about)
    await call(daemon, "claude", "PreCompact", trigger="auto", **about)
    await call(daemon, "claude", "PostCompact", trigger="auto", **about)
    await call(daemon, "claude", "UserPromptSubmit", prompt="…", prompt_id="p3", **about)
    for used in (22, 41):
        await measure(bus, "shop", used)
    asked = {"tool_name": "Bash", "tool_input": {"command": "git push"}}
    await call(daemon, "claude", "PermissionRequest", prompt_id="p3", **asked, **about)


async def others(daemon: Daemon) -> None:
    """One session that works, and one that is idle."""
    till: dict[str, Any] = {"session_id": "till", "cwd": "/srv/till"}
    await call(daemon, "codex", "SessionStart", source="startup", **till)
    await call(daemon, "codex", "UserPromptSubmit", prompt="…", turn_id="t1", **till)
    site: dict[str, Any] = {"session_id": "site", "cwd": "/srv/site"}
    await call(daemon, "gemini", "SessionStart", source="startup", **site)
    await call(daemon, "gemini", "BeforeAgent", prompt="…", **site)
    await call(daemon, "gemini", "AfterAgent", prompt="…", prompt_response="…", stop_hook_active=False, **site)


async def draw(page: Page, url: str, folder: Path) -> None:
    """Make every picture."""
    for name, place, width, height, colors in PICTURES:
        await page.size(width, height, colors=colors)
        await page.open(f"{url}/#/{place}")
        await page.until(f"document.querySelector('[aria-current]').href.includes({place.split('/')[0]!r})")
        # What is read for the screen comes in a moment; a picture has no event to wait for.
        await anyio.sleep(1.5)
        await page.picture(folder / f"{name}.png")


async def make(folder: Path) -> None:
    """Let the sessions work, and make the pictures."""
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        async with open_page(Path(profile)) as page, running_gateway() as (daemon, address), client_of(daemon) as bus:
            async with serving(bus, note, ["frame.opening"], client_id="notes"), anyio.create_task_group() as tasks:
                tasks.start_soon(shop, daemon, bus)
                tasks.start_soon(others, daemon)
            await enter(page, daemon)
            await draw(page, address.url, folder)


if __name__ == "__main__":
    anyio.run(make, Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
