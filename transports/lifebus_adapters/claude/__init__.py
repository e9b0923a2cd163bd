"""Claude Code: all that is known of it, as one value."""

from typing import Final

from lifebus_adapters.claude import hooks, model_calls, telemetry
from lifebus_adapters.harness import Harness
from lifebus_contract import ConformanceLevel

__all__ = ["HARNESS"]

HARNESS: Final = Harness(
    package=__name__,
    aliases=frozenset({"claude-code", "claude_code"}),
    conformance=ConformanceLevel.V1,
    hooks=hooks.HOOKS,
    hook_facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
    overrides=telemetry.OVERRIDES,
    assets_in=f"{__name__}.assets",
    one_shot_in=f"{__name__}.one_shot",
    compaction_in=f"{__name__}.compaction",
    call_files=model_calls.call_files(telemetry.SOURCES[0]),
)
"""What is known of Claude Code."""
