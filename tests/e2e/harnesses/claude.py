"""Claude Code: `claude -p`, its hooks in `~/.claude/settings.json`."""

from typing import Final

from e2e.harnesses.base import Turn
from e2e.programs import Package, find
from e2e.sandbox import Sandbox

__all__ = ["CLAUDE"]


class Claude:
    """Claude Code, which compacts when it is told `/compact`."""

    adapter_id = "claude"
    packages = (Package("npm", "@anthropic-ai/claude-code", "2.1.330"),)
    context_window = 200_000

    def furnish(self, box: Sandbox, model_url: str) -> None:
        """It needs no settings."""

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_BASE_URL": model_url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def command(self, turn: Turn) -> list[str]:
        program = find(self.packages[0], "node_modules/@anthropic-ai/claude-code-*[!l]/claude")
        told = ["--output-format", "stream-json", "--verbose", "--include-hook-events", "--allowedTools", "Bash"]
        session = ["--resume", turn.session] if turn.session else []
        return [str(program), *told, *session, *turn.arguments, "-p", turn.prompt]


CLAUDE: Final = Claude()
