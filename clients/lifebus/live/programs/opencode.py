"""OpenCode: `opencode run`, our plugin in `~/.config/opencode/plugin`."""

import json
import shutil
from pathlib import Path
from typing import Final

from lifebus.live.model.conversation import MODEL
from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Asking, HarnessProgram, Installation, Preparation, RefusingHook, Turn
from lifebus.live.sandbox import Ran, Sandbox

_WINDOW: Final = 20_000


def _prepare(box: Sandbox, given: Preparation) -> None:
    folder = box.home / ".config/opencode"
    _prepare_plugins(folder, given.program)
    if given.refusal:
        # In the project: its plugins run after the user's own.  In one folder the file system decides the order, and
        # where a plugin refuses a prompt those behind it are never asked.
        _prepare_plugins(box.project / ".opencode", given.program)
        (box.project / ".opencode/plugin/refusing.js").write_text(_refusing_plugin(given.refusal))
    limits = {"context": _WINDOW, "output": 2_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Loopback",
        "options": {"baseURL": f"{given.model_url}/v1", "apiKey": "dummy"},
        "models": {MODEL: {"name": "Fake", "limit": limits, "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "model": f"loopback/{MODEL}",
        "small_model": f"loopback/{MODEL}",
        "enabled_providers": ["loopback"],
        "provider": {"loopback": provider},
        "permission": {"bash": "allow", "edit": "allow"},
    }
    (folder / "opencode.json").write_text(json.dumps(settings, indent=2))


def _prepare_plugins(folder: Path, program: Installation) -> None:
    (folder / "plugin").mkdir(parents=True)
    # OpenCode installs this beside its settings at each start, and waits for minutes where there is no network.
    if kit := program.plugin_kit:
        shutil.copytree(kit / "node_modules", folder / "node_modules", symlinks=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(kit / name, folder / name)


def _environment(_box: Sandbox, _model_url: str) -> dict[str, str]:
    wishes = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")
    return {f"OPENCODE_DISABLE_{wish}": "1" for wish in wishes}


def _command(turn: Turn) -> list[str]:
    session = ["--session", turn.session] if turn.session else []
    return ["opencode", "run", "--format", "json", "--auto", *session, *turn.arguments, turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if "plugin" in line.lower()]


def _prepare_asking(box: Sandbox) -> None:
    """`opencode run --auto` asks as the terminal does, and answers itself."""
    (box.project / "opencode.json").write_text(json.dumps({"permission": {"bash": "ask"}}))


_HOOKS: Final = {"prompt": "chat.message", "tool": "tool.execute.before"}


def _refusing_plugin(refusal: RefusingHook) -> str:
    return f"""\
export const Refusing = async () => ({{
  "{_HOOKS[refusal.point]}": async () => {{ throw new Error("Refused.") }},
}})
"""


OPENCODE: Final = HarnessProgram(
    adapter_id="opencode",
    context_window=_WINDOW,
    compacting=(prompt("Begin.", say("begun", 9_000)), prompt("Fill.", say("filled", 19_500))),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
    asking=Asking(prepare=_prepare_asking, command=_command),
)
"""OpenCode with a small window, which compacts by itself when it is full."""
