"""OpenCode: `opencode run`, our plugin in `~/.config/opencode/plugin`."""

import json
import shutil
from pathlib import Path
from typing import Final

from support.e2e.fake_model import MODEL
from support.e2e.harnesses.base import Turn
from support.e2e.programs import Package, find, place
from support.e2e.sandbox import Ran, Sandbox

_WINDOW: Final = 20_000
_PLUGIN_KIT: Final = Package("npm", "@opencode-ai/plugin", "1.18.33")
"""OpenCode installs this beside its settings at each start, and waits for minutes where there is no network."""


class OpenCode:
    """OpenCode with a small window, which compacts by itself when it is full."""

    adapter_id = "opencode"
    packages = (Package("npm", "opencode-ai", "1.18.33"), _PLUGIN_KIT)
    context_window = _WINDOW
    more_path = ()
    trusting = ()

    @property
    def program(self) -> Path:
        return find(self.packages[0], "node_modules/opencode-*64/bin/opencode")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        folder = box.home / ".config/opencode"
        kit = place(_PLUGIN_KIT)
        shutil.copytree(kit / "node_modules", folder / "node_modules", symlinks=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(kit / name, folder / name)
        limits = {"context": _WINDOW, "output": 2_000}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Loopback",
            "options": {"baseURL": f"{model_url}/v1", "apiKey": "dummy"},
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

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        features = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")
        return {f"OPENCODE_DISABLE_{feature}": "1" for feature in features}

    def command(self, turn: Turn) -> list[str]:
        session = ["--session", turn.session] if turn.session else []
        return [str(self.program), "run", "--format", "json", "--auto", *session, *turn.arguments, turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        return [line for line in ran.err.splitlines() if "plugin" in line.lower()]


OPENCODE: Final = OpenCode()
