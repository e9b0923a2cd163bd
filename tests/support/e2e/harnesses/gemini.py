"""Gemini CLI: `gemini -p`, its hooks in `~/.gemini/settings.json`."""

import json
import shutil
from pathlib import Path
from typing import Final

from support.e2e.harnesses.base import Turn
from support.e2e.programs import Package, find
from support.e2e.sandbox import Ran, Sandbox


class Gemini:
    """Gemini CLI, which compresses at a twentieth of its window."""

    adapter_id = "gemini"
    packages = (Package("npm", "@google/gemini-cli", "0.61.0"),)
    context_window = 1_048_576
    more_path = (str(Path(shutil.which("node") or "/usr/bin/node").parent),)
    trusting = ()

    @property
    def program(self) -> Path:
        return find(self.packages[0], "node_modules/@google/gemini-cli/bundle/gemini.js")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        folder = box.home / ".gemini"
        folder.mkdir()
        settings = {
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "model": {"compressionThreshold": 0.05},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        }
        (folder / "settings.json").write_text(json.dumps(settings, indent=2))

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {"GEMINI_API_KEY": "dummy", "GEMINI_CLI_NO_RELAUNCH": "true", "GOOGLE_GEMINI_BASE_URL": model_url}

    def command(self, turn: Turn) -> list[str]:
        told = ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-o", "stream-json"]
        session = ["--resume", "latest"] if turn.session else []
        return [str(self.program), *told, *session, *turn.arguments, "-p", turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        return [line for line in ran.err.splitlines() if "hook" in line.lower()]


GEMINI: Final = Gemini()
