"""OpenClaw: `openclaw agent --local`, our plugin named in `~/.openclaw/openclaw.json`."""

import json
from typing import Any, Final

from lifebus.live.model.conversation import MODEL
from lifebus.live.programs.base import HarnessProgram, Preparation, RefusingHook, Turn
from lifebus.live.sandbox import Ran, Sandbox

_WINDOW: Final = 120_000


def _prepare(box: Sandbox, given: Preparation) -> None:
    folder = box.home / ".openclaw"
    folder.mkdir()
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": MODEL, "name": "Fake", "reasoning": False, "input": ["text"], "cost": cost} | {
        "contextWindow": _WINDOW,
        "maxTokens": 4_000,
    }
    provider = {
        "baseUrl": f"{given.model_url}/v1",
        "apiKey": "dummy",
        "api": "openai-completions",
        "models": [model],
    }
    agent = {"workspace": str(box.project), "skipBootstrap": True, "model": {"primary": f"loopback/{MODEL}"}}
    settings: dict[str, Any] = {
        "update": {"checkOnStart": False},
        "tools": {"toolSearch": False},
        "agents": {"defaults": agent},
        "models": {"mode": "replace", "providers": {"loopback": provider}},
    }
    if given.refusal:
        settings["plugins"] = _refusing_plugin(box, given.refusal)
    (folder / "openclaw.json").write_text(json.dumps(settings, indent=2))


def _environment(_box: Sandbox, _model_url: str) -> dict[str, str]:
    return {"DO_NOT_TRACK": "1", "OPENCLAW_DISABLE_TELEMETRY": "1"}


def _command(turn: Turn) -> list[str]:
    session = turn.session or "s1"
    told = ["agent", "--local", "--json", "--session-id", session]
    return ["openclaw", *told, *turn.arguments, "-m", turn.prompt]


def _hook_failures(ran: Ran) -> list[str]:
    told = [line for line in ran.err.splitlines() if "[plugins]" in line and "lifebus" in line]
    return [line for line in told if "can't verify where this plugin came from" not in line]  # it is a file of ours


_ANSWERS: Final = {
    "prompt": ("before_agent_run", '{outcome: "block", reason: "Refused.", message: "Refused."}'),
    "tool": ("before_tool_call", '{block: true, blockReason: "Refused."}'),
    "stop": ("before_agent_finalize", '{action: "revise", reason: "Refused.", message: "Refused."}'),
}


def _refusing_plugin(box: Sandbox, refusal: RefusingHook) -> dict[str, Any]:
    """Write a plugin that refuses, and return the settings that name it."""
    folder, (hook, answer) = box.home / "refusing", _ANSWERS[refusal.point]
    folder.mkdir()
    (folder / "index.js").write_text(
        f"""\
import fs from "node:fs"

const COUNTER = {json.dumps(str(refusal.counter))}
const taken = () => (fs.existsSync(COUNTER) ? Number(fs.readFileSync(COUNTER, "utf8")) : 0)

export default {{
  id: "refusing", name: "Refusing", description: "refuses what comes",
  register(api) {{
    api.on("{hook}", async () => {{
      if (taken() >= {refusal.times}) return undefined
      fs.writeFileSync(COUNTER, String(taken() + 1))
      return {answer}
    }})
  }},
}}
"""
    )
    schema = {"type": "object", "additionalProperties": False}
    about = {"id": "refusing", "name": "Refusing", "activation": {"onStartup": True}, "configSchema": schema}
    (folder / "openclaw.plugin.json").write_text(json.dumps(about))
    package = {"name": "refusing", "version": "1.0.0", "type": "module", "openclaw": {"extensions": ["./index.js"]}}
    (folder / "package.json").write_text(json.dumps(package))
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    return {"load": {"paths": [str(folder)]}, "entries": {"refusing": entry}}


OPENCLAW: Final = HarnessProgram(
    adapter_id="openclaw",
    context_window=_WINDOW,
    compacting=(),
    prepare=_prepare,
    environment=_environment,
    command=_command,
    hook_failures=_hook_failures,
)
"""OpenClaw without its Gateway; the session has the id that it is given."""
