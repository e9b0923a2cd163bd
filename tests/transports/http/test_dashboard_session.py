"""The screen of a session in a real browser: its course, where it was at a receipt, and the file of it all."""

from pathlib import Path
from typing import Final

import anyio
import pytest

from support.transports.browser import BROWSER, Page, open_page
from support.transports.dashboards import SUBAGENTS, client_of, enter, recorded_page
from support.transports.gateway import emit, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

COMPACTED: Final = "0000012f-376e-463b-88ec-bf97cf3e03ab"
"""A recorded session of Claude Code that was compacted."""

LANES: Final = "[...document.querySelectorAll('.course > text')].map((one) => one.textContent)"
MOMENT: Final = "document.querySelector('#session-moment').textContent"
KEEP: Final = """
window.kept = null;
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.kept = blob; return make.call(URL, blob); };
"""
"""Keeps what the page hands to the browser as a file."""


async def test_a_session_is_seen_as_lanes_scrubbed_by_keys_and_exported(tmp_path: Path) -> None:
    async with recorded_page(tmp_path / "profile") as (page, _, address, bus):
        await page.press("g")
        await page.press("s")
        await page.shows("Choose a session.")
        await page.open(f"{address.url}/#/session/claude/{SUBAGENTS}")
        await page.until(f"{LANES}.includes('sub-agents')")
        assert {"session", "turns", "sub-agents", "context"} <= set(await page.run(LANES))
        for drawn in (".turn", ".nested", ".mark.payload", "#playhead"):
            assert await page.run(f"document.querySelectorAll('.course {drawn}, {drawn}').length") > 0, drawn
        assert "context → pre_prompt_frame" in await page.run("document.querySelector('.mark.payload').textContent")
        # From receipt to receipt by keys alone; the address goes along.
        await page.run("document.querySelector('#scrubber').focus()")
        await page.press("Home")
        await page.until(f"{MOMENT}.startsWith('1 of ')")
        await page.press("ArrowRight")
        await page.press("]")
        await page.until(f"{MOMENT}.startsWith('3 of ') || {MOMENT}.startsWith('2 of ')")
        await page.open(f"{address.url}/#/session/claude/{SUBAGENTS}?at=11")
        await page.until(f"{MOMENT}.startsWith('11 of ')")
        assert "sub-agent" in await page.text()
        # What comes is drawn where the scrubber stands at the end.
        await page.open(f"{address.url}/#/session/codex/live")
        await page.shows("There is no receipt of codex/live.")
        await emit(bus, "live")
        await page.until(f"{MOMENT}.startsWith('1 of 1 ')")
        await emit(bus, "live", 2)
        await page.until(f"{MOMENT}.startsWith('3 of 3 ')")
        await page.open(f"{address.url}/#/session/claude/{COMPACTED}")
        await page.until("document.querySelectorAll('.course .compaction').length === 1")
        await page.open(f"{address.url}/#/session/claude/{SUBAGENTS}")
        await page.until(f"{LANES}.includes('sub-agents')")
        await export(page, tmp_path / "session.html")
        assert page.faults == []


async def export(page: Page, file: Path) -> None:
    """Export a session as a file that needs nothing."""
    await page.run(KEEP)
    await page.press("e")
    await page.until("window.kept !== null")
    text = await page.run("window.kept.text()")
    await anyio.Path(file).write_text(text)
    assert "<script" not in text
    assert "Ask before you push." not in text
    await page.open(file.as_uri())
    await page.shows("This file holds")
    await page.shows("context → pre_prompt_frame, 20 B")
    assert {"turns", "sub-agents"} <= set(await page.run(LANES))
    # Its style is its own, and nothing was asked of anybody.
    assert await page.run("getComputedStyle(document.querySelector('.turn')).stroke") != "none"
    assert await page.run("performance.getEntriesByType('resource').length") == 0


async def test_what_is_missing_of_a_session_is_hatched_and_named(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await emit(bus, "s1", 12)
        await bus.ledger.prune(10)
        await enter(page, daemon)
        await page.open(f"{address.url}/#/session/codex/s1")
        await page.shows("receipts 1 to 10 are not kept any more")
        # What is drawn comes a moment after the words.
        await page.until("document.querySelectorAll('.gap rect[fill=\"url(#hatching)\"]').length === 1")
