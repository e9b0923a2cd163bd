"""From nothing to a notice: the commands that a user types, and hook payloads that Claude Code and Codex have sent."""

import json
from pathlib import Path
from typing import Any

from support.command_line import Shell, broker_up
from support.paths import REPOSITORY, TESTS

RECORDED = TESTS / "data/captures/claude/interactive_permission_interrupt_clear_compact/hooks.jsonl"
EXAMPLES = REPOSITORY / "transports/lifebus_adapters/codex/examples.jsonl"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def until_the_permission() -> list[dict[str, Any]]:
    """Return what Claude Code sent to its hooks, up to the first request for a permission."""
    sent = [line["stdin"] for line in lines_of(RECORDED) if line["event"] != "statusLine"]
    events = [one["hook_event_name"] for one in sent]
    return sent[: events.index("PermissionRequest") + 1]


def test_three_commands_lead_to_a_notice_of_each_harness_that_waits(alone: Shell) -> None:
    codex = [line["payload"] for line in lines_of(EXAMPLES) if line.get("hook") == "PermissionRequest"]
    for harness in ("claude", "codex"):
        assert alone.call("hooks", "install", harness, "--yes").code == 0
    asked = ("--on", "waits", "--after", "0s", "--group", "0s", "--json")
    with broker_up(alone), alone.started("notify", *asked, "--", "true") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.readline()
        for harness, payloads in (("claude", until_the_permission()), ("codex", codex[:1])):
            for payload in payloads:
                alone.hook(harness, payload)
            notice = json.loads(process.stdout.readline())
            assert notice["notices"][0]["adapter_id"] == harness
            assert notice["title"].endswith("waits for a permission (Bash)")
