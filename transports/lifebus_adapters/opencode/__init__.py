"""OpenCode: manifest, hooks, rendering and telemetry in one adapter."""

from typing import Final

from lifebus_adapters.harness import HarnessAdapter
from lifebus_adapters.opencode import hooks, rendering, telemetry
from lifebus_adapters.shared.manifests import builtin
from lifebus_contract import ConformanceLevel, PlacementClass

__all__ = ["ADAPTER"]

ADAPTER: Final = HarnessAdapter(
    registered=builtin(
        "opencode",
        ConformanceLevel.PRE_CONFORMANCE,
        refused=frozenset({PlacementClass.DEVELOPER_EQUIVALENT_FRAME}),
    ),
    hooks=hooks.HOOKS,
    slots=rendering.SLOTS,
    native=rendering.native,
    facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
)
"""The adapter of OpenCode; its context is user-role text, which is no developer-equivalent frame."""
