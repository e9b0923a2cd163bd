"""Gemini CLI: `gemini -p`, its hooks in `~/.gemini/settings.json`."""

import json
from typing import Final

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Asking, HarnessProgram, HookPoint, Preparation, Turn, command_hooks
from lifebus.live.sandbox import Ran, Sandbox


def _prepare(box: Sandbox, given: Preparation) -> None:
    folder = box.home / ".gemini"
    folder.mkdir()
    hooks_of: dict[HookPoint, str] = {"prompt": "BeforeAgent", "tool": "BeforeTool", "stop": "AfterAgent"}
    hooks = command_hooks(given.refusal, hooks_of) if given.refusal else {}
    settings = {
        "hooks": hooks,
        "general": {"maxAttempts": 1, "enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "model": {"compressionThreshold": 0.05},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=2))


def _environment(_box: Sandbox, model_url: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "dummy", "GEMINI_CLI_NO_RELAUNCH": "true", "GOOGLE_GEMINI_BASE_URL": model_url}


def _command(turn: Turn) -> list[str]:
    told = ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-o", "stream-json"]
    session = ["--resume", "latest"] if turn.session else []
    return ["gemini", *told, *session, *turn.arguments, "-p", turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if "hook" in line.lower()]


def _asking(turn: Turn) -> list[str]:
    return ["gemini", "-m", "gemini-2.5-pro", "--approval-mode", "default", *turn.arguments, "-i", turn.prompt]


GEMINI: Final = HarnessProgram(
    adapter_id="gemini",
    context_window=1_048_576,
    compacting=(
        prompt("Fill. " + "Much to read. " * 24_000, say("filled", 700_000)),
        prompt("Go on.", say("gone on", 3_000)),
    ),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
    asking=Asking(prepare=lambda _: None, command=_asking, dialog="Allow"),
)
"""Gemini CLI, which compresses at a twentieth of its window."""
