"""A page of the dashboard that is logged in, and what is recorded for it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec

import lifebus
from lifebus.cli.bus.dashboard import make_link
from lifebus.demo.replay import load_recordings
from lifebus_adapters import ADAPTERS
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_transports.http.access.page_logins import KEY_HEADER
from support.adapters.calls import captured
from support.integration.hooking import call_hook
from support.integration.serving import serving
from support.paths import CAPTURES
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.browser import Page, open_page
from support.transports.gateway import Address, running_gateway

POSITIONS: Final = """
(async () => {
  const list = document.querySelector('.list');
  const found = new Set();
  for (let top = 0; top <= list.scrollHeight; top += list.clientHeight / 2) {
    do { // again where the page has gone to the end meanwhile, because it had just drawn what came
      list.scrollTop = top;
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    } while (Math.abs(list.scrollTop - Math.min(top, list.scrollHeight - list.clientHeight)) > 1);
    for (const one of list.querySelectorAll('.position')) found.add(Number(one.textContent));
  }
  return [...found].sort((one, other) => one - other);
})()
"""
"""Every position that the tail shows, read by scrolling through it."""


def client_of(daemon: Daemon) -> AbstractAsyncContextManager[lifebus.Bus]:
    """A client of a broker, which waits for answers as long as a test does."""
    return connected(daemon, "t")


async def enter(page: Page, daemon: Daemon, *, write: bool = False, port: int = 0) -> None:
    """Log a page in at a gateway; with a port, by way of that port."""
    url, _, code = make_link(daemon.settings.runtime_dir, write=write).url.partition("/#")
    await page.size(1440, 900)
    await page.open(f"{f'http://localhost:{port}' if port else url}/#{code}")
    await page.until("document.querySelector('#connection').dataset.state === 'live'")


async def log_in(client: httpx.AsyncClient, runtime_dir: Path, *, write: bool = False) -> httpx.Response:
    """Use a new link as the page does; the client shows cookie and key from then on."""
    code = make_link(runtime_dir, write=write).url.partition("#login=")[2]
    answer = await client.post("/api/login", json={"code": code})
    client.headers[KEY_HEADER] = answer.json()["key"]
    return answer


SUBAGENTS: Final = "00000001-1708-4288-958b-069e282649ce"
"""A recorded session of Claude Code with a sub-agent."""


async def replay(daemon: Daemon) -> None:
    """Call the hooks of the recorded sessions of three harnesses, and of one with a sub-agent."""
    for recording in load_recordings():
        for step in recording.steps:
            await call_hook(daemon, recording.adapter, **msgspec.json.decode(step.stdin, type=dict[str, object]))
    calls = HookCalls(daemon.bus, ADAPTERS, PATIENCE_S, supervision=daemon.supervisor)
    for call, _ in captured(CAPTURES / "claude/print_subagent_error_fork/hooks.jsonl"):
        await calls.handle(call)


@asynccontextmanager
async def recorded_page(
    profile: Path, *, write: bool = False
) -> AsyncGenerator[tuple[Page, Daemon, Address, lifebus.Bus]]:
    """A page beside a broker that knows the recorded sessions, one of which took a payload of a client."""

    async def note(_: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
        payload = lifebus.make_payload("notes", "Ask before you push.")
        return lifebus.CallbackResponse.ok(lifebus.ReceiptStatus.DELIVERED, payload)

    async with open_page(profile) as page, running_gateway() as (daemon, address), client_of(daemon) as bus:
        async with serving(bus, note, ["frame.opening"], client_id="notes"):
            await replay(daemon)
        await enter(page, daemon, write=write)
        yield page, daemon, address, bus
