"""Codex CLI: manifest, hooks, rendering and telemetry in one adapter."""

from typing import Final

from lifebus_adapters.codex import hooks, rendering, telemetry
from lifebus_adapters.harness import HarnessAdapter
from lifebus_adapters.shared.manifests import builtin
from lifebus_contract import ConformanceLevel, IntegrationMode

__all__ = ["ADAPTER"]

ADAPTER: Final = HarnessAdapter(
    registered=builtin("codex", ConformanceLevel.V1, watching=frozenset({IntegrationMode.REFERENCE_ADAPTER})),
    hooks=hooks.HOOKS,
    slots=rendering.SLOTS,
    native=rendering.native,
    facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
)
"""The adapter of Codex CLI."""
