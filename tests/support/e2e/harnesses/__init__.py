"""The real harnesses, by adapter id."""

from typing import Final

from support.e2e.harnesses.base import Harness
from support.e2e.harnesses.claude import CLAUDE
from support.e2e.harnesses.codex import CODEX
from support.e2e.harnesses.gemini import GEMINI
from support.e2e.harnesses.hermes import HERMES
from support.e2e.harnesses.openclaw import OPENCLAW
from support.e2e.harnesses.opencode import OPENCODE

__all__ = ["HARNESSES"]

HARNESSES: Final[dict[str, Harness]] = {
    one.adapter_id: one for one in (CODEX, CLAUDE, GEMINI, OPENCODE, HERMES, OPENCLAW)
}
"""Every harness that can be tested, in order."""
