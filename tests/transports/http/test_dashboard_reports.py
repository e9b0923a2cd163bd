"""The dashboard's jobs, transcripts, ledger, hooks and doctor in a real browser."""

from pathlib import Path

import anyio
import pytest

from lifebus_contract.jobs import NewJob
from lifebus_supervisor.daemon.own_commands import COMMAND
from support.integration.hooking import call_hook
from support.transcripts.boxes import entry
from support.transports.browser import BROWSER, open_page
from support.transports.dashboards import client_of, enter
from support.transports.gateway import emit, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


async def test_jobs_are_shown_and_canceled_and_a_transcript_is_read_page_by_page(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "profile") as page,
        running_gateway() as (daemon, address),
        client_of(daemon) as bus,
    ):
        await emit(bus, "s1")
        for number in range(70):
            await bus.transcripts.upsert("s1", entry(f"m{number}", content=f"said {number}"))
        payload = {"argv": ["sleep", "600"], "cwd": "/"}
        job = (await bus.jobs.enqueue(NewJob(type="command", project_id="p1", payload=payload))).job
        await enter(page, daemon, write=True)
        await page.press("g")
        await page.press("j")
        await page.shows("▶ running")
        await page.click(job.id)
        await page.shows('"sleep"')
        await page.click("Cancel the job")
        await page.until("document.querySelector('dialog[open] button.danger')")
        await page.run("document.querySelector('dialog[open] button.danger').click()")
        await page.shows("◼ canceled")
        await page.click("All jobs and transcripts")
        await page.shows("Transcripts")
        link = "document.querySelector('a[href$=\"transcript/s1\"]')"
        await page.until(link)
        await page.run(f"{link}.click()")
        await page.shows("said 63")
        assert "said 64" not in await page.text()
        await page.click("Next page")
        await page.shows("said 69")
        assert await page.run("location.hash") == "#/jobs/transcript/s1?after=64"
        await page.click("First page")
        await page.shows("said 0")
        await page.open(f"{address.url}/#/jobs?state=failed")
        await page.shows("There is no such job.")
        assert page.faults == []


async def test_the_ledger_is_shown_and_its_chain_checked(tmp_path: Path) -> None:
    async with open_page(tmp_path / "profile") as page, running_gateway() as (daemon, _), client_of(daemon) as bus:
        await emit(bus, "s1", 5)
        await enter(page, daemon)
        await page.press("g")
        await page.press("l")
        await page.shows("positions 1 to 5")
        await page.shows("up to 30 days, 1,024 MB")
        await page.shows("No gap was recorded.")
        await page.click("Check the newest 10,000 receipts")
        await page.shows("The chain holds up to position 5.")
        await emit(bus, "s1", 2)
        await page.shows("positions 1 to 7")
        assert page.faults == []


async def test_hooks_and_doctor_show_what_their_commands_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text("{")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    await anyio.run_process([*COMMAND, "hooks", "install", "gemini", "--yes"])
    async with open_page(tmp_path / "profile") as page, running_gateway() as (daemon, _):
        await call_hook(
            daemon, "codex", hook_event_name="SessionStart", source="startup", session_id="s1", cwd="/srv/shop"
        )
        await enter(page, daemon)
        await page.press("g")
        await page.press("h")
        await page.shows(str(settings))
        await page.shows("cannot be read")
        await page.shows("lifebus hooks install hermes")
        await page.shows("✓ works")
        await page.shows(str(tmp_path / ".gemini/settings.json"))
        await page.shows("SessionStart, BeforeAgent")
        await page.shows("✓ as installed")
        calls = (
            "[...document.querySelectorAll('section')].find((one) => one.querySelector('h2')?.textContent === 'codex')"
        )
        assert "ago" in await page.run(f"{calls}.querySelector('dd').innerText") or "now" in await page.text()
        await page.press("g")
        await page.press("d")
        await page.shows("1 check is bad")
        await page.shows("settings.json")
        assert await page.run("document.querySelector('tbody tr').innerText.includes('✗')")
        assert page.faults == []
