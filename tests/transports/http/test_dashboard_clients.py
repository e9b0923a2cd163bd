"""The screens of clients and of capabilities in a real browser: lag, dead letters, a reset, and what is weaker now."""

from pathlib import Path

import pytest

import lifebus
from support.integration.serving import content, serving
from support.transports.browser import BROWSER, open_page
from support.transports.dashboard_world import leave_a_dead_letter, lose_pressure
from support.transports.dashboards import client_of, enter
from support.transports.gateway import emit, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def row(words: str) -> str:
    """The text of the row of a table that has these words, where there is one."""
    return f"([...document.querySelectorAll('tr')].find((one) => one.textContent.includes('{words}'))?.innerText)"


async def test_clients_and_capabilities_show_who_is_behind_and_what_is_lost(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await emit(bus, "d1")
        await leave_a_dead_letter(bus)
        for _ in range(5):
            await bus.emit([lifebus.make_request("session.started", "codex", session="s1") for _ in range(200)])
        await enter(page, daemon, write=True)
        async with serving(bus, content, ["session.started"], client_id="notes"):
            await page.press("g")
            await page.press("c")
            await page.until(f"{row('notes')}?.includes('session.started')")
        await page.until(f"{row('desk')}?.includes('▲ 1,00')")
        # What is away and far behind goes on at the head, once a person has agreed.
        await page.click("Go on at the head")
        await page.shows("desk leaves out 1,00")
        await page.run("document.querySelector('dialog .danger').click()")
        await page.until(f"{row('desk')}?.includes('away') && !{row('desk')}.includes('▲')")
        assert (await bus.cursors.standing("desk"))[0].lag == 0
        await page.click("✗ 1 letter")
        await page.shows("Dead letters of desk")
        await page.shows("codex/d1")
        await lose_pressure(daemon, bus)
        await page.press("g")
        await page.press("k")
        await page.until(f"{row('▽ context_pressure')}?.includes('unavailable, claimed')")
        await page.shows("the transcript is gone")
        await page.shows("2026-09-2")
        named = "[...document.querySelectorAll('th[scope=col]')].map((one) => one.textContent)"
        assert {"claude", "codex", "gemini", "hermes", "openclaw", "opencode"} <= set(await page.run(named))
        assert "the transcript tells the tokens" in await page.text()
        await page.open(f"{address.url}/#/capabilities/gemini")
        # The page before has both.
        await page.until("!document.body.innerText.includes('Claude Code (claude)')")
        await page.shows("Gemini CLI (gemini)")
        assert page.faults == []


async def test_a_page_that_reads_resets_nothing(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await emit(bus, "s1", 3)
        async with bus.consume("desk", since="start") as deliveries:
            await anext(deliveries)
        await enter(page, daemon)
        await page.open(f"{address.url}/#/clients")
        await page.until("document.querySelector('#reset-desk')?.disabled")
        assert "lifebus dashboard --write" in await page.run("document.querySelector('#reset-desk').title")
