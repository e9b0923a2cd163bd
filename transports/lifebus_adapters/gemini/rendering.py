"""How Gemini CLI takes context, as measured with 0.61.0.

- stdout must be JSON and nothing else: other text is shown to the user.
- SessionStart context is put in front of the prompt, BeforeAgent context behind it, both as user-role text: no
  `developer_equivalent_frame`.  Context on AfterAgent is ignored.
- 44 KB went through whole; the manifest claims no more than 32.
"""

from typing import Final

from lifebus_adapters.harness import hook_specific_output
from lifebus_contract import ManifestPlacementClass

SLOTS: Final = {
    "SessionStart": ManifestPlacementClass.PRE_SESSION,
    "BeforeAgent": ManifestPlacementClass.PRE_FRAME_TRAILING,
}
"""The hooks that take context, and where it lands."""

native = hook_specific_output
