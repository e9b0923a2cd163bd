"""Codex CLI: all that is known of it, as one value."""

from typing import Final

from lifebus_adapters.codex import hooks, model_calls, telemetry
from lifebus_adapters.harness import Harness
from lifebus_contract import ConformanceLevel, IntegrationMode

__all__ = ["HARNESS"]

HARNESS: Final = Harness(
    package=__name__,
    aliases=frozenset({"codex-cli", "codex_cli"}),
    conformance=ConformanceLevel.V1,
    watching_modes=frozenset({IntegrationMode.REFERENCE_ADAPTER}),
    hooks=hooks.HOOKS,
    hook_facts=telemetry.hook_facts,
    sources=telemetry.SOURCES,
    overrides=telemetry.OVERRIDES,
    assets_in=f"{__name__}.assets",
    one_shot_in=f"{__name__}.one_shot",
    compaction_in=f"{__name__}.one_shot",
    call_files=model_calls.call_files(telemetry.SOURCES[0]),
    trust_in=f"{__name__}.trust",
)
"""What is known of Codex CLI."""
