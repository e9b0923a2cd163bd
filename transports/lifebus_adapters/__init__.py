"""What lifebus knows about each harness, pure: native hooks in, native answers out, and the manifests."""

from typing import Final

from lifebus_adapters import claude, codex, gemini, hermes, openclaw, opencode
from lifebus_adapters.adapter import Adapter, CallerProcess, Delivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.claude import assets as claude_assets
from lifebus_adapters.claude import telemetry as claude_telemetry
from lifebus_adapters.codex import assets as codex_assets
from lifebus_adapters.codex import telemetry as codex_telemetry
from lifebus_adapters.gemini import assets as gemini_assets
from lifebus_adapters.gemini import telemetry as gemini_telemetry
from lifebus_adapters.hermes import assets as hermes_assets
from lifebus_adapters.openclaw import assets as openclaw_assets
from lifebus_adapters.opencode import assets as opencode_assets
from lifebus_adapters.opencode import telemetry as opencode_telemetry
from lifebus_adapters.shared.assets import HostAssets
from lifebus_adapters.shared.manifests import load_manifest, load_third_party

__all__ = [
    "ADAPTERS",
    "HOST_ASSETS",
    "OVERRIDES",
    "Adapter",
    "CallerProcess",
    "Delivery",
    "HookAnswer",
    "HookCall",
    "HookReading",
    "HostAssets",
    "load_manifest",
    "load_third_party",
]

ADAPTERS: Final[dict[str, Adapter]] = {
    "codex": codex.ADAPTER,
    "claude": claude.ADAPTER,
    "gemini": gemini.ADAPTER,
    "opencode": opencode.ADAPTER,
    "hermes": hermes.ADAPTER,
    "openclaw": openclaw.ADAPTER,
}
"""The built-in adapters by adapter id."""

OVERRIDES: Final = frozenset(
    {
        *claude_telemetry.OVERRIDES,
        *codex_telemetry.OVERRIDES,
        *gemini_telemetry.OVERRIDES,
        *opencode_telemetry.OVERRIDES,
    }
)
"""Our own variables that say where a harness keeps its telemetry, and what it does not tell."""

HOST_ASSETS: Final[dict[str, HostAssets]] = {
    assets.adapter_id: assets
    for assets in (
        codex_assets.ASSETS,
        claude_assets.ASSETS,
        gemini_assets.ASSETS,
        opencode_assets.ASSETS,
        hermes_assets.ASSETS,
        openclaw_assets.ASSETS,
    )
}
"""What lifebus installs for each harness, by adapter id."""
