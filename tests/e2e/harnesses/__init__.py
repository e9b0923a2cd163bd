"""The real harnesses, by adapter id."""

from typing import Final

from e2e.harnesses.base import Harness
from e2e.harnesses.claude import CLAUDE
from e2e.harnesses.codex import CODEX

__all__ = ["HARNESSES"]

HARNESSES: Final[dict[str, Harness]] = {one.adapter_id: one for one in (CODEX, CLAUDE)}
"""Every harness that can be tested, in order."""
