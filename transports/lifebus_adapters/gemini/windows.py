"""How large the context windows of Gemini CLI's models are: no file of the harness says it.

The table is what Gemini CLI 0.61.0 reckons with.  A model that is not in it has no known window: no guess.
"""

from typing import Final

from lifebus_adapters.shared.lines import positive_override
from lifebus_adapters.shared.telemetry import Surroundings

WINDOW_OVERRIDES: Final = ("LIFEBUS_GEMINI_CONTEXT_WINDOW_TOKENS", "LIFELOOP_GEMINI_CONTEXT_WINDOW_TOKENS")
"""The variables that say how large the window is, whatever the model."""

_GEMINI: Final = 1_048_576
_GEMMA_4: Final = 256_000

WINDOW_TOKENS: Final[dict[str, int]] = {
    "gemini-2.5-pro": _GEMINI,
    "gemini-2.5-flash": _GEMINI,
    "gemini-2.5-flash-lite": _GEMINI,
    "gemini-3-flash": _GEMINI,
    "gemini-3-flash-preview": _GEMINI,
    "gemini-3-pro-preview": _GEMINI,
    "gemini-3.1-flash-lite": _GEMINI,
    "gemini-3.1-pro-preview": _GEMINI,
    "gemini-3.1-pro-preview-customtools": _GEMINI,
    "gemini-3.5-flash": _GEMINI,
    "gemini-3.5-flash-lite": _GEMINI,
    "gemini-3.8-flash": _GEMINI,
    "gemma-4-26b-a4b-it": _GEMMA_4,
    "gemma-4-31b-it": _GEMMA_4,
}
"""Tokens by model name."""


def window_of(model: str | None, surroundings: Surroundings | None = None) -> tuple[int | None, str | None]:
    """Return the window and where that is known from: an override first, then the table; twice None if nowhere."""
    override = positive_override(surroundings, *WINDOW_OVERRIDES) if surroundings else None
    if override is not None:
        return override[1], f"override:{override[0]}"
    if model in WINDOW_TOKENS:
        return WINDOW_TOKENS[model], f"table:{model}"
    return None, None
