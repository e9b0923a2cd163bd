"""Codex runs no hook that its user has not trusted, and says nothing of it: what `lifebus hooks` makes of that."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from lifebus.live.model.scripting import ScriptStep, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.codex import CODEX
from lifebus.live.sandbox import PATIENCE_S
from support.e2e.harness_run import HarnessRun, events_of, harness_run
from support.e2e.installation import lifebus, remove
from support.e2e.pinned import PINNED

HOOKS = ".codex/hooks.json"
SETTINGS = ".codex/config.toml"


def listed(on: HarnessRun) -> list[dict[str, Any]]:
    """Return the hooks as Codex itself lists them, each with its key and hash."""
    about = {"clientInfo": {"name": "e2e", "title": "e2e", "version": "0"}}
    calls = [("initialize", about), ("hooks/list", {"cwds": [str(on.box.project)]})]
    lines = [
        json.dumps({"id": number, "method": method, "params": given}) for number, (method, given) in enumerate(calls)
    ]
    server = subprocess.Popen(
        [str(PINNED["codex"].program.file), "app-server"],
        cwd=on.box.project,
        env=on.box.environment(CODEX.environment(on.box, on.model.url)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("no pipes")
        server.stdin.write("\n".join([lines[0], '{"method": "initialized"}', lines[1], ""]))
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        answer = next(one for one in answers if one.get("id") == 1)
    finally:
        server.kill()
        server.communicate(timeout=PATIENCE_S)
    return [hook for entry in answer["result"]["data"] for hook in entry["hooks"]]


async def test_untrusted_hooks_are_told_of_and_trusted_ones_run() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Begin.", say("begun")), trusting=False))
        assert events_of(await on.receipts()) == []
        before = lifebus(on.box, "hooks", "status", "codex")
        assert (before.code, "NOT TRUSTED" in before.out) == (1, True)
        hashes = {hook["key"]: hook["currentHash"] for hook in listed(on)}
        trust = [f'[hooks.state."{key}"]\ntrusted_hash = "{text}"\n' for key, text in hashes.items()]
        with (on.box.home / SETTINGS).open("a") as settings:
            settings.write("\n" + "\n".join(trust))
        after = lifebus(on.box, "hooks", "status", "codex")
        assert (after.code, "NOT TRUSTED" in after.out) == (0, False), after
        await on.run(Turn(prompt("Go on.", say("gone on")), trusting=False))
        assert events_of(await on.receipts())[0] == "session.starting startup"


@pytest.mark.parametrize("steps", [(say("done"),), (run("sleep 4"), say("done"))], ids=["short", "long"])
async def test_turns_without_trusted_hooks_show_that_these_are_silent_and_why(steps: Sequence[ScriptStep]) -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Work.", *steps), trusting=False))
        loss = await on.first(lambda one: one.event == "capability.degraded")
        assert loss.telemetry_summary["cause"] == "hooks_silent"
        evidence = loss.capability_degradations[0].evidence
        assert evidence.endswith("no hook ever came: the hooks are installed and not trusted")


async def test_a_canary_arrives_through_the_installed_hooks() -> None:
    async with harness_run(CODEX) as on:
        ran = lifebus(on.box, "hooks", "test", "codex")
        assert ran.code == 0, ran
        assert [one for one in await on.receipts() if "canary" in one.telemetry_summary]


async def test_removal_leaves_every_file_as_it_was_before_the_hooks_were_used() -> None:
    async with harness_run(CODEX) as on:
        settings = (on.box.home / SETTINGS).read_bytes()
        await on.run(Turn(prompt("Work.", say("done"))))
        remove(CODEX, on.box)
        assert not (on.box.home / HOOKS).exists()
        assert (on.box.home / SETTINGS).read_bytes() == settings
        assert not list((on.box.home / ".local/share").rglob("lifebus*"))
