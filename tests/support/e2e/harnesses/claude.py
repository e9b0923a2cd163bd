"""Claude Code: `claude -p`, its hooks in `~/.claude/settings.json`."""

import json
from pathlib import Path
from typing import Final

from support.e2e.harnesses.base import Turn
from support.e2e.programs import Package, find
from support.e2e.sandbox import Ran, Sandbox


class Claude:
    """Claude Code, which compacts when it is told `/compact`."""

    adapter_id = "claude"
    packages = (Package("npm", "@anthropic-ai/claude-code", "2.1.330"),)
    context_window = 200_000
    more_path = ()
    trusting = ()

    @property
    def program(self) -> Path:
        return find(self.packages[0], "node_modules/@anthropic-ai/claude-code-*[!l]/claude")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        """It needs no settings."""

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_BASE_URL": model_url,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def command(self, turn: Turn) -> list[str]:
        told = ["--output-format", "stream-json", "--verbose", "--include-hook-events", "--allowedTools", "Bash"]
        session = ["--resume", turn.session] if turn.session else []
        return [str(self.program), *told, *session, *turn.arguments, "-p", turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        told = [json.loads(line) for line in ran.out.splitlines()]
        ended = [one for one in told if one.get("subtype") == "hook_response"]
        return [one["hook_name"] for one in ended if (one["exit_code"], one["outcome"]) != (0, "success")]


CLAUDE: Final = Claude()
