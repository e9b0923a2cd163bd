"""Hooks written into a harness's settings by hand."""

import json
import shlex
import sys
from pathlib import Path

import lifebus
from e2e.sandbox import Sandbox

EVENTS = {
    "codex": ("SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "Interrupt", "SessionEnd"),
    "claude": ("SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "StopFailure", "SessionEnd"),
}
FILES = {"codex": ".codex/hooks.json", "claude": ".claude/settings.json"}


def install(adapter_id: str, box: Sandbox) -> None:
    hook = Path(lifebus.__file__).with_name("hook.py")
    entries = {
        event: [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": shlex.join([sys.executable, "-I", "-S", str(hook), adapter_id, event]),
                    }
                ]
            }
        ]
        for event in EVENTS[adapter_id]
    }
    path = box.home / FILES[adapter_id]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": entries}))
