"""The dashboard's inbox in a real browser: who is asked, an answer that reaches its flow, and pages that only read."""

from pathlib import Path

import pytest

from lifebus_contract.runs import RunStatus
from support.flows import flow, step
from support.inbox.questions import question
from support.transports.browser import BROWSER, Page, open_page
from support.transports.dashboard_world import BLOCKED, until
from support.transports.dashboards import client_of, enter
from support.transports.gateway import running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


async def choose(page: Page, words: str) -> None:
    """Press the button with these words in the dialog, once it is there."""
    find = f"[...document.querySelectorAll('dialog[open] button')].find((one) => one.textContent === '{words}')"
    await page.until(f"{find} !== undefined")
    await page.run(f"{find}.click()")


async def test_an_answer_on_the_page_reaches_the_flow_once_it_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await enter(page, daemon, write=True)
        await page.press("g")
        await page.press("i")
        await page.shows("No question waits for an answer.")
        steps = (step("a", command=("/bin/sh", "-c", BLOCKED)), step("b", "a"))
        run = await until(
            bus, await bus.flows.submit(flow(tmp_path / "project", *steps), run_id="run_1"), RunStatus.WAITING
        )
        await page.shows("Waiting for an answer (1)")
        await page.shows("0 of 2")
        await page.click("run_1")
        await page.shows("no credentials")
        await page.open(f"{address.url}/#/inbox")
        # A question before anything is done; without a yes nothing is.
        await page.click("Retry")
        await choose(page, "Close")
        assert (await bus.inbox.questions())[0].answer is None
        await page.click("Retry")
        await page.run("void (document.querySelector('dialog textarea').value = 'they are there now')")
        await choose(page, "Retry")
        await until(bus, run, RunStatus.COMPLETED)
        await page.shows("No question waits for an answer.")
        await page.shows("2 of 2")
        (settled,) = await bus.inbox.questions(open_only=False)
        assert settled.answer is not None
        assert (settled.answer.responder, settled.answer.message) == ("dashboard", "they are there now")
        assert page.faults == []


async def test_values_are_modified_and_runs_are_ended_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await bus.inbox.ask(question("q_1"))
        await enter(page, daemon, write=True)
        await page.open(f"{address.url}/#/inbox")
        await page.click("Modify")
        fill = """
        [...document.querySelectorAll('dialog label')].forEach((label) => {
          const value = {depth: '2', branch: 'main', force: 'true', files: 'a.py\\nb.py'}[label.firstChild.textContent];
          if (value) label.querySelector('input, select, textarea').value = value;
        })
        """
        await page.until("document.querySelectorAll('dialog label').length === 5")
        await page.run(f"void {fill}")
        await choose(page, "Modify")
        await page.shows("No question waits for an answer.")
        (settled,) = await bus.inbox.questions(open_only=False)
        assert settled.answer is not None
        values = {"depth": 2, "branch": "main", "force": True, "files": ["a.py", "b.py"]}
        assert settled.answer.modifications == values
        run = await bus.flows.submit(flow(tmp_path / "project", step("a", command=("sleep", "600"))), run_id="run_1")
        await page.open(f"{address.url}/#/inbox/run_1")
        await page.click("End this run")
        await choose(page, "End this run")
        await until(bus, run, RunStatus.ABORTED)
        await page.shows("◼ aborted")


async def test_a_page_that_only_reads_shows_questions_and_says_how_to_act(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await bus.inbox.ask(question("q_1"))
        await enter(page, daemon)
        await page.open(f"{address.url}/#/inbox")
        await page.shows("audit is blocked")
        await page.shows("lifebus dashboard --write opens one that may act.")
        assert await page.run("[...document.querySelectorAll('.question button')].every((one) => one.disabled)")
        # Whatever the page shows, it is the gateway that refuses.
        refused = await page.run("""
        (async () => {
          const { request } = await import('/dashboard/access.js');
          return request('POST', '/api/questions/q_1/answer', { action: 'retry' }).catch((fault) => fault.code);
        })()
        """)
        assert refused == "read_only"
        assert (await bus.inbox.questions())[0].answer is None
