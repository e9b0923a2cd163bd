"""What an OpenClaw plugin gets back: ``{"prependContext": …}``, which `before_prompt_build` may return.

The text lands in front of the prompt, inside the user's message: `pre_frame_leading`, and no
`developer_equivalent_frame`.
"""

from typing import Any, Final

from lifebus_contract import ManifestPlacementClass

SLOTS: Final = {"before_prompt_build": ManifestPlacementClass.PRE_FRAME_LEADING}
"""The hooks that take context, and where it lands."""


def native(hook: str, text: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    """Return what the plugin returns."""
    return {"prependContext": text}
