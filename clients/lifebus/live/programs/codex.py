"""Codex CLI: `codex exec`, its hooks in `~/.codex/hooks.json`."""

import json
from typing import Final

from lifebus.live.model.conversation import MODEL
from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.programs.base import Asking, HarnessProgram, HookPoint, Preparation, Turn, command_hooks
from lifebus.live.sandbox import Ran, Sandbox

_WINDOW: Final = 20_000
_COMPACT_OVER: Final = 15_000


def _prepare(box: Sandbox, given: Preparation) -> None:
    folder = box.home / ".codex"
    folder.mkdir()
    hooks_of: dict[HookPoint, str] = {"prompt": "UserPromptSubmit", "tool": "PreToolUse", "stop": "Stop"}
    if given.refusal:
        (folder / "hooks.json").write_text(json.dumps({"hooks": command_hooks(given.refusal, hooks_of)}, indent=2))
    (folder / "config.toml").write_text(
        f"""\
model = "{MODEL}"
model_provider = "loopback"
model_context_window = {_WINDOW}
model_auto_compact_token_limit = {_COMPACT_OVER}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.loopback]
name = "loopback"
base_url = "{given.model_url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
    )


def _environment(_box: Sandbox, _model_url: str) -> dict[str, str]:
    return {"LOOPBACK_KEY": "dummy"}


def _command(turn: Turn) -> list[str]:
    going_on = ["resume"] if turn.session else []
    session = [turn.session] if turn.session else []
    trusting = ["--dangerously-bypass-hook-trust"] if turn.trusting else []
    return ["codex", "exec", *going_on, *trusting, *turn.arguments, *session, turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    told = [line for line in ran.err.splitlines() if line.startswith("hook: ")]
    return [line for line in told if not line.endswith("Completed") and f"{line} Completed" not in told]


def _prepare_asking(box: Sandbox) -> None:
    """Have it ask for `touch`: what its sandbox refuses depends on the machine."""
    folder = box.home / ".codex"
    (folder / "rules").mkdir()
    (folder / "rules/default.rules").write_text('prefix_rule(pattern=["touch"], decision="prompt")\n')
    with (folder / "config.toml").open("a") as settings:
        settings.write(f'\n[projects."{box.project}"]\ntrust_level = "trusted"\n')


def _asking(turn: Turn) -> list[str]:
    trusting = ["--dangerously-bypass-hook-trust"] if turn.trusting else []
    return ["codex", *trusting, "-c", 'approval_policy="on-request"', *turn.arguments, turn.prompt]


CODEX: Final = HarnessProgram(
    adapter_id="codex",
    context_window=_WINDOW,
    compacting=(prompt("Fill.", run("echo hi", 16_000), say("done", 3_000)),),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
    asking=Asking(prepare=_prepare_asking, command=_asking, dialog="Would you like"),
)
"""Codex with a small window, which compacts over 15,000 tokens by itself."""
