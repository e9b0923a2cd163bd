"""Codex CLI: `codex exec`, its hooks in `~/.codex/hooks.json`."""

from pathlib import Path
from typing import Final

from support.e2e.fake_model import MODEL
from support.e2e.harnesses.base import Turn
from support.e2e.programs import Package, find
from support.e2e.sandbox import Ran, Sandbox

_WINDOW: Final = 20_000
_COMPACT_OVER: Final = 15_000


class Codex:
    """Codex with a small window, which compacts over 15,000 tokens by itself."""

    adapter_id = "codex"
    packages = (Package("npm", "@openai/codex", "0.169.0"),)
    context_window = _WINDOW
    more_path = ()
    trusting = ("--dangerously-bypass-hook-trust",)

    @property
    def program(self) -> Path:
        return find(self.packages[0], "node_modules/@openai/codex-*/vendor/*/bin/codex")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        folder = box.home / ".codex"
        folder.mkdir()
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
base_url = "{model_url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
        )

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {"LOOPBACK_KEY": "dummy"}

    def command(self, turn: Turn) -> list[str]:
        going_on = ["resume"] if turn.session else []
        session = [turn.session] if turn.session else []
        return [str(self.program), "exec", *going_on, *turn.arguments, *session, turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        told = [line for line in ran.err.splitlines() if line.startswith("hook: ")]
        return [line for line in told if not line.endswith("Completed") and f"{line} Completed" not in told]


CODEX: Final = Codex()
