"""Hermes: `hermes -z`, its hooks in `~/.hermes/config.yaml`."""

from pathlib import Path
from typing import Final

import yaml

from support.e2e.fake_model import MODEL
from support.e2e.harnesses.base import Turn
from support.e2e.programs import Package, find
from support.e2e.sandbox import Ran, Sandbox


class Hermes:
    """Hermes; a session that is to go on runs as `hermes chat`, which can resume."""

    adapter_id = "hermes"
    packages = (Package("pypi", "hermes-agent", "0.19.0"),)
    context_window = 200_000
    more_path = ()
    trusting = ()

    @property
    def program(self) -> Path:
        return find(self.packages[0], "bin/hermes")

    def furnish(self, box: Sandbox, model_url: str) -> None:
        folder = box.home / ".hermes"
        folder.mkdir()
        model = {"provider": "custom", "base_url": f"{model_url}/v1", "api_key": "dummy", "default": MODEL}
        settings = {"model": model, "terminal": {"backend": "local"}}
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        return {
            "HERMES_HOME": str(box.home / ".hermes"),
            "OPENAI_API_KEY": "dummy",
            "OPENAI_BASE_URL": f"{model_url}/v1",
        }

    def command(self, turn: Turn) -> list[str]:
        program = [str(self.program), "--accept-hooks", "--yolo"]
        if turn.session is None:
            return [*program, *turn.arguments, "-z", turn.prompt]
        return [*program, *turn.arguments, "chat", "--resume", turn.session, "-q", turn.prompt]

    def hook_failures(self, ran: Ran) -> list[str]:
        return [line for line in (ran.out + ran.err).splitlines() if "hook" in line.lower()]


HERMES: Final = Hermes()
