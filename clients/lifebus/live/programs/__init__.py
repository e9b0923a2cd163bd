"""The real harnesses, by adapter id."""

from typing import Final

from lifebus.live.programs.base import HarnessProgram
from lifebus.live.programs.claude import CLAUDE
from lifebus.live.programs.codex import CODEX
from lifebus.live.programs.gemini import GEMINI
from lifebus.live.programs.hermes import HERMES
from lifebus.live.programs.openclaw import OPENCLAW
from lifebus.live.programs.opencode import OPENCODE

__all__ = ["PROGRAMS"]

PROGRAMS: Final[dict[str, HarnessProgram]] = {
    one.adapter_id: one for one in (CODEX, CLAUDE, GEMINI, OPENCODE, HERMES, OPENCLAW)
}
"""Every harness that can be tested, in order."""
