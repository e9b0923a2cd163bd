#!/usr/bin/env python3
"""A program that runs the hooks of ~/.claude/settings.json as Claude Code does in one turn.

By the name of forgetful.py it leaves Stop out.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

SESSION = "0000024e-74b9-4edd-8b2f-ec37ae33932a"
PROMPT = "0000024f-71d9-45d1-86f1-5b16689a1a93"


def hook(name: str, **fields: object) -> None:
    payload = {"session_id": SESSION, "cwd": str(Path.cwd()), "hook_event_name": name, **fields}
    settings = json.loads(Path("~/.claude/settings.json").expanduser().read_text())
    for group in settings["hooks"].get(name, []):
        for one in group["hooks"]:
            subprocess.run(["sh", "-c", one["command"]], input=json.dumps(payload).encode(), check=True)


def ask(prompt: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "tools": [{"name": "Bash"}]}
    address = f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages"
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode())) as answer:
        answer.read()


def main() -> None:
    if "--version" in sys.argv:
        sys.stdout.write("2.1.330 (Claude Code)\n")
        return
    hook("SessionStart", source="startup")
    hook("UserPromptSubmit", prompt_id=PROMPT, prompt=sys.argv[-1])
    ask(sys.argv[-1])
    if Path(__file__).resolve().stem != "forgetful":
        hook("Stop", prompt_id=PROMPT, stop_hook_active=False)
    hook("SessionEnd", prompt_id=PROMPT, reason="other")


main()
