"""Notifications of the browser: never without being asked for, after a grace, together, and not in quiet hours."""

from pathlib import Path
from typing import Any, Final

import pytest

from support.integration.hooking import call_hook
from support.transports.browser import BROWSER, open_page
from support.transports.dashboards import enter
from support.transports.gateway import running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

STAND_IN: Final = """
(() => {
  window.asked = 0;
  window.shown = [];
  window.Notification = class {
    static permission = localStorage.getItem('test.permission') ?? 'default';
    static async requestPermission() { window.asked += 1; return (window.Notification.permission = 'granted'); }
    constructor(title, { body }) { window.shown.push([title, body]); }
    close() {}
  };
})()
"""
"""What a browser with a person before it has: it asks, and keeps what it was told to show."""

RULES: Final = """
(async () => {
  const { Reminders, isQuiet } = await import('/dashboard/reminders.js');
  const on = ['waits', 'escalations', 'pressure', 'silence'];
  const rules = { on, afterS: 10, groupS: 2, pressurePct: 80, quiet: '22:00-07:00' };
  const one = new Reminders(rules);
  const wait = (sinceMs, kind) => ({ waitingFor: 'permission', sinceMs, kind });
  const session = (name, waiting, usedPct = null) => ({ name, waiting, usedPct, ended: false });
  const noon = 12 * 60;
  const told = [];
  const at = (seconds, sessions, { minutes = noon, silent = [] } = {}) => {
    const harnesses = [{ adapterId: 'codex', silent }];
    told.push(one.take({ sessions: new Map(sessions), harnesses, nowMs: seconds * 1000, minutes }));
  };
  const a = ['claude/a', session('a#1', [wait(0, 'Bash')])];
  const b = ['claude/b', session('b#1', [wait(1000, 'flow.escalation')])];
  at(9, [a, b]);                                         // 0 the grace is not over
  at(10, [a, b]);                                        // 1 others may follow
  at(12, [a, b]);                                        // 2 both as one
  at(13, [a, b]);                                        // 3 once
  at(20, [['claude/a', session('a#1', [wait(19000, 'Edit')])]]);  // 4 another wait has a grace of its own
  at(25, []);                                            // 5 it is over before that: nothing
  at(30, [['claude/a', session('a#1', [], 85)]], { minutes: 23 * 60 });  // 6 quiet
  at(40, [['claude/a', session('a#1', [], 85)]]);        // 7
  at(42, [['claude/a', session('a#1', [], 85)]]);        // 8 what is still so afterwards
  at(50, [['claude/a', session('a#1', [], 75)]]);        // 9 not emptier by ten percent
  at(52, [['claude/a', session('a#1', [], 85)]]);        // 10
  at(55, [], { silent: ['hooks'] });                     // 11
  at(57, [], { silent: ['hooks'] });                     // 12
  const clock = [[23, true], [6, true], [7, false], [12, false]];
  const hours = clock.every(([hour, quiet]) => isQuiet('22:00-07:00', hour * 60) === quiet);
  return { told, hours, none: isQuiet('', 0) };
})()
"""


async def test_nobody_is_asked_before_a_button_is_pressed_and_then_waits_are_shown(tmp_path: Path) -> None:
    turn: dict[str, Any] = {"session_id": "s1", "cwd": "/srv/shop", "prompt_id": "p1"}
    async with open_page(tmp_path / "profile") as page, running_gateway() as (daemon, _):
        await enter(page, daemon)
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=STAND_IN)
        await page.call("Page.reload")
        await page.until("window.asked === 0 && document.querySelector('#connection').dataset.state === 'live'")
        await page.click("Notify")
        await page.shows("They are off. The browser asks you once more.")
        # Neither a grace nor a pause for others.
        inputs = "document.querySelectorAll('dialog input[type=number][max=\"3600\"]')"
        await page.run(f"{inputs}.forEach((one) => {{ one.value = '0'; }})")
        await page.click("Notify me")
        await page.until("window.asked === 1")
        await page.shows("This browser notifies you while a page of the dashboard is open.")
        await call_hook(
            daemon, "claude", hook_event_name="SessionStart", source="startup", session_id="s1", cwd="/srv/shop"
        )
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **turn)
        question = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "x"}}
        await call_hook(daemon, "claude", **question, **turn)
        await page.until("window.shown.length === 1")
        assert await page.run("window.shown[0]") == ["shop#1 waits for a permission (Bash)", ""]
        # A page that is loaded again shows what is new, and nothing twice.
        await page.run("localStorage.setItem('test.permission', 'granted')")
        await page.call("Page.reload")
        await page.until("window.shown.length === 0 && document.querySelector('#connection').dataset.state === 'live'")
        other = {"session_id": "s2", "cwd": "/srv/till", "prompt_id": "p2"}
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **other)
        await call_hook(daemon, "claude", **question, **other)
        await page.until("window.shown.length === 1")
        assert await page.run("window.shown[0]") == ["till#1 waits for a permission (Bash)", ""]
        # It is off again at once, and nothing of it is kept.
        await page.click("Notify")
        await page.shows("They are on.")
        await page.click("Notify me no longer")
        await page.shows("This browser notifies you no longer.")
        assert await page.run("localStorage.getItem('lifebus.notifications')") is None
        assert page.faults == []


async def test_grace_groups_quiet_hours_and_what_is_told_once(tmp_path: Path) -> None:
    async with open_page(tmp_path / "profile") as page, running_gateway() as (daemon, _):
        await enter(page, daemon)
        found = await page.run(RULES)
    titles = {index: one["title"] for index, one in enumerate(found["told"]) if one is not None}
    assert titles == {
        2: "2 things need a look",
        8: "a#1 has used 85 % of its context",
        12: "codex is silent: hooks",
    }
    assert found["told"][2]["body"] == "a#1 waits for a permission (Bash)\nb#1 waits for a permission (flow.escalation)"
    assert found["hours"]
    assert not found["none"]
