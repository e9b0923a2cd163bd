"""Every screen, of a broker that knows much: nobody is shut out of it, its policy holds, and keys are enough."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import pytest

from lifebus_contract.jobs import JobState
from lifebus_contract.runs import RunStatus
from support.transports.browser import BROWSER, Page, open_page
from support.transports.dashboard_world import RUN, furnish, until
from support.transports.dashboards import client_of, enter, recorded_page
from support.transports.gateway import emit, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

LISTEN: Final = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
"""
FOCUSED: Final = "document.activeElement"


def axe_core() -> anyio.Path:
    """axe-core, out of a package of its own; LIFEBUS_AXE names another version."""
    package = find_spec("axe_playwright_python")
    folder = None if package is None else package.submodule_search_locations
    named = os.environ.get("LIFEBUS_AXE")
    if not named and not folder:
        pytest.skip("axe-core is not installed: `make test` installs it; or name its axe.min.js in LIFEBUS_AXE")
    return anyio.Path(named or Path((folder or [""])[0]) / "axe.min.js")


async def serious(page: Page) -> list[str]:
    """What axe-core finds on a page that shuts people out."""
    found = await page.run("axe.run().then((found) => JSON.stringify(found.violations))")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in json.loads(found)
        if one["impact"] in {"serious", "critical"}
    ]


async def test_every_screen_is_open_to_everybody_and_keeps_its_policy(tmp_path: Path) -> None:
    source = await axe_core().read_text()
    async with recorded_page(tmp_path / "profile", write=True) as (page, daemon, address, bus):
        places = await furnish(daemon, bus, tmp_path / "project")
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=LISTEN)
        await page.open("about:blank")
        await page.open(address.url)
        await page.shows("Needs you")
        await page.run(f"void {source}")
        for place, text in places.items():
            for width, colors in ((1440, "light"), (380, "dark")):
                await page.size(width, 900, colors=colors)
                await page.open(f"{address.url}/#/{place}")
                await page.shows(text)
                assert await serious(page) == [], (place, width)
                # What does not fit scrolls within itself.
                assert await page.run("document.documentElement.scrollWidth <= innerWidth"), (place, width)
        assert await page.run("window.violations") == []
        assert page.faults == []
        # Whoever breaks the policy is heard.
        await page.run("document.body.setAttribute('style', 'color: red')")
        await page.until("window.violations.length === 1")


async def test_every_screen_is_reached_and_used_by_keys_alone(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, _),
        client_of(daemon) as bus,
    ):
        await furnish(daemon, bus, tmp_path / "project")
        await emit(bus, "s9", 60)
        await enter(page, daemon, write=True)
        # The first stop skips the navigation, and stays on the screen.
        await page.press("Tab")
        assert await page.run(f"{FOCUSED}.textContent") == "Skip to the content"
        await page.press("Enter")
        await page.until(f"{FOCUSED}.id === 'main' && location.hash === '#/now'")
        for key, name in await page.run(
            "[...document.querySelectorAll('#screens a')].map((one) => [one.title.at(-1), one.dataset.screen])"
        ):
            await page.press("g")
            await page.press(key)
            await page.until(
                f"location.hash === '#/{name}' && document.querySelector('[aria-current]').title.endsWith('g {key}')"
            )
            # What comes next is in the screen, not in the head of the page.
            await page.until(f"document.querySelector('main').contains({FOCUSED})")
        await use_lists(page)
        await answer(page)
        await until(bus, await bus.flows.wait(RUN), RunStatus.COMPLETED)
        await cancel(page)
        (job,) = await bus.jobs.list()
        assert job.state is JobState.CANCELED
        await page.press("?")
        await page.shows("the next or previous row")
        await page.press("Escape")
        await page.until("!document.querySelector('dialog').open")
        assert page.faults == []


async def use_lists(page: Page) -> None:
    """Go through the tail and a session."""
    chosen = "document.querySelector('.row[aria-selected=true]')?.id"
    await page.press("g")
    await page.press("t")
    await page.shows("· live")
    await page.press("k")
    await page.until(f"{chosen}?.startsWith('row-')")
    last = await page.run(chosen)
    await page.press("k")
    await page.until(f"{chosen} !== {json.dumps(last)}")
    await page.press("j")
    await page.until(f"{chosen} === {json.dumps(last)}")
    await page.press(" ")
    await page.shows("paused")
    await page.press("/")
    await page.until(f"{FOCUSED}.id === 'filter-session'")
    await page.type("s9")
    await page.press("Enter")
    await page.shows("60 receipts")
    await page.press("Escape")
    await page.press("g")
    await page.press("s")
    await page.shows("Choose a session.")
    await page.tab_to("a[href='#/session/codex/s9']")
    await page.press("Enter")
    await page.shows("60 of 60 receipts")
    await page.press("[")
    await page.shows("59 of 60 receipts")
    await page.press("k")
    await page.shows("58 of 60 receipts")


async def answer(page: Page) -> None:
    """Answer the question of a flow."""
    await page.press("g")
    await page.press("i")
    await page.shows("Waiting for an answer (1)")
    await page.tab_to("[id^=answer-][id$=-retry]")
    await page.press("Enter")
    await page.until("document.querySelector('dialog[open]')")
    await page.tab_to("dialog .primary")
    await page.press("Enter")
    await page.shows("No question waits for an answer.")


async def cancel(page: Page) -> None:
    """Cancel a job."""
    await page.press("g")
    await page.press("j")
    await page.tab_to("a[href^='#/jobs/job/']")
    await page.press("Enter")
    await page.shows('"sleep"')
    await page.tab_to("#cancel-job")
    await page.press("Enter")
    await page.tab_to("dialog .danger")
    await page.press("Enter")
    await page.shows("◼ canceled")
