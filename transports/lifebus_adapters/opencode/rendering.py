"""What an OpenCode plugin gets back: text parts to push behind those of the user's message in `chat.message`.

That is user-role text after the prompt: `pre_frame_trailing`, and no `developer_equivalent_frame`.
"""

from typing import Any, Final

from lifebus_contract import ManifestPlacementClass

SLOTS: Final = {"chat.message": ManifestPlacementClass.PRE_FRAME_TRAILING}
"""The hooks that take context, and where it lands."""


def native(hook: str, text: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    """Return what the plugin pushes."""
    return {"parts": [{"type": "text", "text": text}]}
