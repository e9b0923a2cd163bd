"""Gemini CLI: all that is known of it, as one value."""

from typing import Final

from lifebus_adapters.gemini import hooks, telemetry
from lifebus_adapters.harness import USER_TEXT_ONLY, Harness

__all__ = ["HARNESS"]

HARNESS: Final = Harness(
    package=__name__,
    aliases=frozenset({"gemini-cli", "gemini_cli"}),
    refused_placements=USER_TEXT_ONLY,
    hooks=hooks.HOOKS,
    hook_facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
    overrides=telemetry.OVERRIDES,
    assets_in=f"{__name__}.assets",
    one_shot_in=f"{__name__}.one_shot",
    compaction_in=f"{__name__}.one_shot",
)
"""What is known of Gemini CLI."""
