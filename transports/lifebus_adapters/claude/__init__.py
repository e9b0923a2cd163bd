"""Claude Code: manifest, hooks, rendering and telemetry in one adapter."""

from typing import Final

from lifebus_adapters.claude import hooks, rendering, telemetry
from lifebus_adapters.harness import HarnessAdapter
from lifebus_adapters.shared.manifests import builtin
from lifebus_contract import ConformanceLevel

__all__ = ["ADAPTER"]

ADAPTER: Final = HarnessAdapter(
    registered=builtin("claude", ConformanceLevel.V1),
    hooks=hooks.HOOKS,
    slots=rendering.SLOTS,
    native=rendering.native,
    facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
    status_text=telemetry.status_text,
)
"""The adapter of Claude Code."""
