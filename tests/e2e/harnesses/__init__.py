"""The real harnesses, by adapter id."""

from typing import Final

from e2e.harnesses.base import Harness
from e2e.harnesses.claude import CLAUDE
from e2e.harnesses.codex import CODEX
from e2e.harnesses.gemini import GEMINI
from e2e.harnesses.hermes import HERMES
from e2e.harnesses.openclaw import OPENCLAW
from e2e.harnesses.opencode import OPENCODE

__all__ = ["HARNESSES"]

HARNESSES: Final[dict[str, Harness]] = {
    one.adapter_id: one for one in (CODEX, CLAUDE, GEMINI, OPENCODE, HERMES, OPENCLAW)
}
"""Every harness that can be tested, in order."""
