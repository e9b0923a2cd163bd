"""OpenCode: manifest, hooks and rendering in one adapter.

Above: `ADAPTERS`.  Below: harness, manifests, the two modules here.
"""

from typing import Final

from lifebus_adapters.harness import HarnessAdapter
from lifebus_adapters.manifests import builtin
from lifebus_adapters.opencode import hooks, rendering
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
)
"""The adapter of OpenCode; its context is user-role text, which is no developer-equivalent frame."""
