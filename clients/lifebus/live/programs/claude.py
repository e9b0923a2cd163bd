"""Claude Code: `claude -p`, its hooks in `~/.claude/settings.json`."""

import json
from typing import Final

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Asking, HarnessProgram, HookPoint, Preparation, Turn, command_hooks
from lifebus.live.sandbox import Ran, Sandbox


def _prepare(box: Sandbox, given: Preparation) -> None:
    """It needs no settings but the hooks of others."""
    hooks_of: dict[HookPoint, str] = {"prompt": "UserPromptSubmit", "tool": "PreToolUse", "stop": "Stop"}
    if given.refusal:
        folder = box.home / ".claude"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps({"hooks": command_hooks(given.refusal, hooks_of)}, indent=2))


def _environment(_box: Sandbox, model_url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_BASE_URL": model_url,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _command(turn: Turn) -> list[str]:
    told = ["--output-format", "stream-json", "--verbose", "--include-hook-events", "--allowedTools", "Bash"]
    session = ["--resume", turn.session] if turn.session else []
    return ["claude", *told, *session, *turn.arguments, "-p", turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    told = [json.loads(line) for line in ran.out.splitlines()]
    ended = [one for one in told if one.get("subtype") == "hook_response"]
    return [one["hook_name"] for one in ended if (one["exit_code"], one["outcome"]) != (0, "success")]


def _prepare_asking(box: Sandbox) -> None:
    """Leave nothing that it would ask a new user before it begins."""
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {
        "hasCompletedOnboarding": True,
        "projects": {str(box.project): known},
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
    }
    (box.home / ".claude.json").write_text(json.dumps(settings, indent=2))


def _asking(turn: Turn) -> list[str]:
    return ["claude", "--permission-mode", "default", *turn.arguments, turn.prompt]


CLAUDE: Final = HarnessProgram(
    adapter_id="claude",
    context_window=200_000,
    compacting=(prompt("Fill.", say("filled", 150_000)), "/compact keep it short"),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
    asking=Asking(prepare=_prepare_asking, command=_asking, dialog="proceed?"),
)
"""Claude Code, which compacts when it is told `/compact`."""
