"""How Hermes takes context, as measured with 0.19.0: ``{"context": …}`` on pre_llm_call, and nothing elsewhere.

It is appended to the user's message: user-role text, so no `developer_equivalent_frame`.  The limit was not
measured; the manifest claims no more than the other harnesses take.
"""

from typing import Any, Final

from lifebus_contract import ManifestPlacementClass

SLOTS: Final = {"pre_llm_call": ManifestPlacementClass.PRE_FRAME_TRAILING}
"""The hooks that take context, and where it lands."""


def native(hook: str, text: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    """Return the answer that Hermes reads."""
    return {"context": text}
