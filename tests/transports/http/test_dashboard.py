"""The dashboard in a real browser: login, what it shows, and that it misses nothing while others are gone."""

from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus.cli.bus.dashboard import make_link
from lifebus_supervisor.daemon.composition import Daemon
from support.integration.hooking import call_hook
from support.running import short_directory
from support.transports.browser import BROWSER, open_page
from support.transports.dashboard_world import recorded_positions
from support.transports.dashboards import POSITIONS, client_of, enter
from support.transports.gateway import emit, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


async def work(daemon: Daemon, bus: lifebus.Bus) -> None:
    """A session that works, fills up, and then waits for a person."""
    turn: dict[str, Any] = {"session_id": "s1", "cwd": "/srv/shop", "prompt_id": "p1"}
    await call_hook(
        daemon, "claude", hook_event_name="SessionStart", source="startup", session_id="s1", cwd="/srv/shop"
    )
    await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **turn)
    for used in (40, 85):
        facts: dict[str, str | int | bool | None] = {
            "context_pressure": "high",
            "context_used_pct": used,
            "context_used_tokens": used * 2_000,
        }
        request = lifebus.make_request("context.pressure_observed", "claude", session="s1")
        await bus.emit(lifebus.Emission(request=request, telemetry=facts))
    question = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "x"}}
    await call_hook(daemon, "claude", **question, **turn)


async def test_a_link_logs_in_once_and_leaves_no_code_behind(tmp_path: Path) -> None:
    async with running_gateway() as (daemon, address), open_page(tmp_path / "profile") as page:
        await page.open(address.url)
        await page.shows("This page is not logged in.")
        link = make_link(daemon.settings.runtime_dir).url
        # In the same tab, too, where the browser loads nothing anew by itself.
        await page.open(link)
        await page.until("document.querySelector('#connection').dataset.state === 'live'")
        assert "login" not in await page.run("location.href")
        # No script of the page can read the cookie.
        assert await page.run("document.cookie") == ""
        await page.open("about:blank")
        await page.open(link)
        await page.shows("the link was used before or is too old")
        await page.open("about:blank")
        await page.open(address.url)
        await page.until("document.querySelector('#connection').dataset.state === 'live'")
        await page.open(make_link(daemon.settings.runtime_dir, write=True).url)
        await page.shows("may act")
        await page.click("Log out")
        await page.shows("This page is not logged in.")


async def test_now_shows_who_waits_for_a_person_and_whose_context_fills_up(tmp_path: Path) -> None:
    async with open_page(tmp_path / "profile") as page, running_gateway() as (daemon, _), client_of(daemon) as bus:
        await enter(page, daemon)
        await page.shows("No harness has said anything yet.")
        await work(daemon, bus)
        await page.shows("Needs you (1)")
        await page.shows("shop#1 waits to allow something: Bash")
        await page.shows("context 85 % high")
        # The measures come by the stream, and the share with the session.
        await page.until("document.querySelectorAll('.card svg.pressure .measures').length === 1")
        # Minutes later nothing has been heard of a turn that is open.
        await call_hook(
            daemon, "codex", hook_event_name="UserPromptSubmit", session_id="s2", turn_id="t1", cwd="/srv/till"
        )
        await page.shows("till#1")
        await page.run("void ((now) => { Date.now = () => now() + 360_000; })(Date.now.bind(Date))")
        await emit(bus, "s3")
        await page.shows("Fell silent (1)")
        assert page.faults == []
        # Its policy lets no markup in, whoever tries.
        tried = "try { document.body.innerHTML = '<b>x</b>'; 'done' } catch (fault) { fault.name }"
        assert await page.run(tried) == "TypeError"


async def test_nothing_is_missed_while_the_broker_restarts(tmp_path: Path) -> None:
    async with open_page(tmp_path / "profile") as page:
        with short_directory() as home:
            async with running_gateway(home) as (daemon, address), client_of(daemon) as bus:
                await emit(bus, "s1", 20)
                await enter(page, daemon)
                await page.open(f"{address.url}/#/tail")
                await page.shows("20 receipts from position 1 to 20")
            await page.until("document.querySelector('#connection').dataset.state === 'away'")
            async with running_gateway(home) as (daemon, _), client_of(daemon) as bus:
                await emit(bus, "s1", 30)
                await page.shows("live again: nothing was missed")
                await page.shows("50 receipts from position 1 to 50")
                assert await page.run(POSITIONS) == recorded_positions(home / "state") == list(range(1, 51))
                assert page.faults == []


async def test_what_is_gone_is_said(tmp_path: Path) -> None:
    async with open_page(tmp_path / "profile") as page:
        with short_directory() as home:
            async with running_gateway(home) as (daemon, address), client_of(daemon) as bus:
                await emit(bus, "s1", 5)
                await enter(page, daemon)
                await page.open(f"{address.url}/#/tail")
                await page.shows("5 receipts from position 1 to 5")
            # Another ledger takes the place of the one that the page knows.
            for file in (home / "state").glob("ledger*"):
                file.unlink()
            async with running_gateway(home) as (daemon, _), client_of(daemon) as bus:
                await emit(bus, "s2", 2)
                await page.shows("Not recovered: receipts")
                assert "nothing was missed" not in await page.text()


async def test_the_tail_pauses_without_loss_filters_and_jumps(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await enter(page, daemon)
        await page.press("g")
        await page.press("t")
        await page.shows("0 receipts · live")
        for _ in range(5):
            await bus.emit([lifebus.make_request("session.started", "codex", session="s1") for _ in range(300)])
        await page.shows("to 1500 · live")
        await page.press(" ")
        await emit(bus, "s1", 12)
        await page.shows("paused, 12 behind")
        await page.press(" ")
        await page.shows("to 1512 · live")
        await page.open(f"{address.url}/#/tail?at=700")
        await page.until("document.querySelector('.row[aria-selected=true] .position')?.textContent === '700'")
        await page.shows("position 700")
        # Only what is visible is drawn.
        assert await page.run("document.querySelectorAll('.row').length") < 100
        await bus.emit(lifebus.make_request("session.started", "gemini", session="g1"))
        await page.open(f"{address.url}/#/tail?adapter=gemini")
        await page.shows("1 receipt from position 1513")
        # An id or a short name is enough where one session has it; where none has, the page says so.
        await page.open(f"{address.url}/#/tail?session=g1")
        await page.shows("1 receipt from position 1513")
        await page.open(f"{address.url}/#/tail?session=nobody")
        await page.shows("No session is called nobody")
        await page.call("Emulation.setCPUThrottlingRate", rate=6)
        await page.open(f"{address.url}/#/tail")
        await page.shows("to 1513 · live")
        for _ in range(60):
            await bus.emit(lifebus.make_request("session.started", "gemini", session="g1"))
        await page.shows("to 1573 · live")
        await page.until("[...document.querySelectorAll('.position')].at(-1)?.textContent === '1573'")
        await page.call("Emulation.setCPUThrottlingRate", rate=1)
        await page.open(f"{address.url}/#/tail?adapter=codex&session=s1&event=session.started")
        await page.run("void Object.defineProperty(navigator, 'clipboard', {value: {writeText: async () => {}}})")
        await page.click("Copy as command")
        await page.shows("Copied: lifebus tail --session codex/s1 --event session.started")
        assert page.faults == []
