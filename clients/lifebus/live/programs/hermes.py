"""Hermes: `hermes -z`, its hooks in `~/.hermes/config.yaml`."""

import json
from pathlib import Path
from typing import Any, Final

from lifebus.live.model.conversation import MODEL
from lifebus.live.programs.base import HarnessProgram, Preparation, Turn
from lifebus.live.sandbox import Ran, Sandbox


def _prepare(box: Sandbox, given: Preparation) -> None:
    folder = box.home / ".hermes"
    folder.mkdir()
    model = {"provider": "custom", "base_url": f"{given.model_url}/v1", "api_key": "dummy", "default": MODEL}
    settings: dict[str, Any] = {"model": model, "terminal": {"backend": "local"}, "agent": {"api_max_retries": 1}}
    if given.refusal:
        settings["hooks"] = {"pre_tool_call": [{"command": str(_refusing(box))}]}
    (folder / "config.yaml").write_text(json.dumps(settings, indent=2))  # JSON is YAML too


def _environment(box: Sandbox, model_url: str) -> dict[str, str]:
    return {
        "HERMES_HOME": str(box.home / ".hermes"),
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": f"{model_url}/v1",
    }


def _command(turn: Turn) -> list[str]:
    program = ["hermes", *(["--accept-hooks"] if turn.trusting else []), "--yolo"]
    if turn.session is None:
        return [*program, *turn.arguments, "-z", turn.prompt]
    return [*program, *turn.arguments, "chat", "--resume", turn.session, "-q", turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    return [line for line in (ran.out + ran.err).splitlines() if "hook" in line.lower()]


def _refusing(box: Sandbox) -> Path:
    """Write a program that refuses every tool: Hermes runs no shell, and reads the answer, not the exit code."""
    program = box.bin / "refuse"
    program.write_text('#!/bin/sh\necho \'{"action": "block", "message": "Refused."}\'\n')
    program.chmod(0o755)
    return program


HERMES: Final = HarnessProgram(
    adapter_id="hermes",
    context_window=200_000,
    compacting=(),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
)
"""Hermes; a session that is to go on runs as `hermes chat`, which can resume."""
