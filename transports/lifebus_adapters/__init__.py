"""What lifebus knows about each harness, pure: native hooks in, native answers out, and the manifests.

To add a harness, add its folder here, with a `HARNESS` in it, and a line to `HARNESS_NAMES`.
"""

from importlib import import_module
from typing import Final

from lifebus_adapters.adapter import Adapter, CallerProcess, ContextDelivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.harness import Harness
from lifebus_adapters.shared.manifests import load_manifest, load_third_party

__all__ = [
    "ADAPTERS",
    "ALIASES",
    "HARNESS_NAMES",
    "OVERRIDES",
    "Adapter",
    "CallerProcess",
    "ContextDelivery",
    "Harness",
    "HookAnswer",
    "HookCall",
    "HookReading",
    "load_manifest",
    "load_third_party",
]

HARNESS_NAMES: Final = (
    "codex",
    "claude",
    "gemini",
    "opencode",
    "hermes",
    "openclaw",
)
"""The folders of the built-in harnesses, in the order in which people see them."""

# By name, so that a new harness is one line here and not an import beside it.
_HARNESSES: Final[tuple[Harness, ...]] = tuple(import_module(f"{__name__}.{name}").HARNESS for name in HARNESS_NAMES)

ADAPTERS: Final[dict[str, Harness]] = {harness.adapter_id: harness for harness in _HARNESSES}
"""The built-in harnesses by adapter id."""

ALIASES: Final[dict[str, str]] = {alias: harness.adapter_id for harness in _HARNESSES for alias in harness.aliases}
"""Other names of the built-in harnesses, with the adapter id that each stands for."""

OVERRIDES: Final = frozenset(name for harness in _HARNESSES for name in harness.overrides)
"""Our own variables that say where a harness keeps its telemetry, and what is not in it."""
